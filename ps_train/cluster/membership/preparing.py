"""Sign of life of a task that prepares, which every ps gets before the task joins.

    with told_as_preparing(job, task):
        trace(model, source, batch_size=32)     # may take minutes

A large model, or data that are slow to open, may take longer than others wait for a task to join.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Iterator

from ps_train.base.errors import PsTrainError
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.addresses.resolver import ClusterResolver
from ps_train.cluster.membership.connect import NotReadyError, check_reachable
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.records import TaskState, new_task_status, preparing_key
from ps_train.config.job import Job, Task

log = logging.getLogger(__name__)

_FIRST_SECS, _EVERY_SECS = 3.0, 2.0
"""Seconds before the first word, as most models are prepared sooner, and between two."""


@contextlib.contextmanager
def told_as_preparing(job: Job, task: Task) -> Iterator[None]:
    """Tells every ps that answers that this task lives, while the body runs; a ps that does not answer is left out."""
    ended = threading.Event()
    thread = threading.Thread(target=_tell, args=[job, task, ended], daemon=True, name="preparing")
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _tell(job: Job, task: Task, ended: threading.Event) -> None:
    status = dataclasses.replace(new_task_status(str(task)), state=TaskState.PREPARING)
    stores: dict[Address, KeyValueStore] = {}
    resolver, secs = ClusterResolver(job), _FIRST_SECS
    while not ended.wait(secs):
        secs, status = _EVERY_SECS, dataclasses.replace(status, heartbeat=status.heartbeat + 1)
        for address in resolver.current().ps:
            try:
                check_reachable(address)
                store = stores.get(address) or stores.setdefault(address, KeyValueStore(address.target, str(address)))
                store.set(preparing_key(str(task)), status.to_json())
            except (NotReadyError, PsTrainError) as error:
                log.debug("%s does not answer yet: %s", address, error)
