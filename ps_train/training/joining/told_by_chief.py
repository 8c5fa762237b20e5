"""What the chief tells the other tasks by its records on the ps, and how they wait for it.

text = told_by_chief(store, records.PS_WEIGHTS, "told the weights of the ps", cluster, timeout_secs=120)
ready = await_ready(stores, "worker:0", timeout_secs=120)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ps_train.base.errors import LostTaskError, RefusedError
from ps_train.base.untrusted import read_object
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership import records
from ps_train.cluster.membership.connect import NotReadyError, patient, retry_until
from ps_train.cluster.membership.job_diff import diff_configs
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.records import ModelReady


def ready_records(stores: list[KeyValueStore]) -> list[ModelReady | None]:
    """Returns the `ModelReady` record of each ps; None for a ps without the model."""
    texts = [store.get(records.READY) for store in stores]
    return [ModelReady.from_json(text) if text else None for text in texts]


def await_ready(stores: list[KeyValueStore], chief: str, timeout_secs: float) -> ModelReady:
    """Waits until the model is ready on all ps; checks twenty times a second.

    Args:
      stores: the store of each ps.
      chief: task name of the chief, for errors.
      timeout_secs: seconds to wait without a sign of life of the chief.

    Returns:
      The chief's record.
    """

    def read() -> ModelReady:
        found = ready_records(stores)
        ready = found[0]
        if ready is None or any(other is None or other.generation != ready.generation for other in found):
            raise NotReadyError(f"{chief} has not initialized or restored the model yet")
        return ready

    ready: ModelReady = retry_until(read, timeout_secs, f"the chief, {chief}", lambda: _sign_of_life(stores[0], chief))
    return ready


def _sign_of_life(store: KeyValueStore, task: str) -> tuple[str, int] | None:
    """Returns what changes while a task lives, also before it joins; None if there is no sign of it."""
    try:
        statuses = records.task_statuses(store.items())
    except LostTaskError:
        return None
    return next((one.sign_of_life for one in statuses if one.task == task), None)


def agree_with_chief(
    store: KeyValueStore, own: Mapping[str, Any], cluster: Cluster, task: str, timeout_secs: float
) -> None:
    """Waits for the chief's description of the job and compares it with this task's.

    Raises:
      RefusedError: the descriptions differ; the text shows the differences.
    """
    expected = told_by_chief(store, records.DESCRIPTION, "described the job", cluster, timeout_secs)
    found = diff_configs(read_object(expected), own, "the chief", task)
    if found:
        raise RefusedError(f"{task} differs from the job of {_chief_in_words(cluster)}: {'; '.join(found)}.")


def told_by_chief(store: KeyValueStore, key: str, what: str, cluster: Cluster, timeout_secs: float) -> str:
    """Waits until the chief has written a record; returns it.

    Args:
      store: of the ps that has it.
      key: one of `records.py`.
      what: what the chief does with it, in words, for errors.
      cluster: the host lists.
      timeout_secs: seconds to wait without a sign of life of the chief.

    Raises:
      UnreachableError: the time is over.
    """
    chief = _chief_in_words(cluster)

    def read() -> str:
        text = patient(lambda: store.get(key))
        if not text:
            raise NotReadyError(f"{chief} has not {what} yet")
        return str(text)

    found: str = retry_until(
        read, timeout_secs, f"the chief, {chief}", lambda: _sign_of_life(store, str(cluster.chief))
    )
    return found


def _chief_in_words(cluster: Cluster) -> str:
    return f"{cluster.chief} ({cluster.tasks().get(str(cluster.chief)) or 'address unknown here'})"
