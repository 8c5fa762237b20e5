"""Sign of life of a task that prepares, which every ps gets before the task joins.

    with told_as_preparing(job, task):
        trace(model, source, batch_size=32)     # may take minutes

A large model, or data that are slow to open, may take longer than others wait for a task to join.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Iterator

from ps_train.base.errors import PsTrainError
from ps_train.base.life_sign import LifeSign
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
    status = dataclasses.replace(new_task_status(str(task)), state=TaskState.PREPARING)
    stores: dict[Address, KeyValueStore] = {}
    resolver, heartbeats = ClusterResolver(job), itertools.count(1)

    def tell() -> None:
        text = dataclasses.replace(status, heartbeat=next(heartbeats)).to_json()
        for address in resolver.current().ps:
            try:
                check_reachable(address)
                store = stores.get(address) or stores.setdefault(address, KeyValueStore(address.target, str(address)))
                store.set(preparing_key(str(task)), text)
            except (NotReadyError, PsTrainError) as error:
                log.debug("%s does not answer yet: %s", address, error)

    sign = LifeSign("preparing", tell, _EVERY_SECS, _FIRST_SECS)
    sign.start()
    try:
        yield
    finally:
        sign.stop()
