"""The racks of a job: each worker learns the rack of every other one, and all of them agree.

topology = found_racks(prepared, stores)
confirm_racks(prepared, topology, stores[0])      # in every session
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Sequence

from ps_train.base.errors import RefusedError
from ps_train.base.untrusted import read_object
from ps_train.cluster.membership import records
from ps_train.cluster.membership.connect import NotReadyError, patient, retry_until
from ps_train.cluster.membership.job_diff import diff_configs
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.records import Identity, task_statuses
from ps_train.cluster.topology import Topology
from ps_train.config.job_values import described
from ps_train.training.joining.prepare import Prepared
from ps_train.training.joining.told_by_chief import told_by_chief

log = logging.getLogger(__name__)

_TOPOLOGY = "topology"
"""Key of the rack of each task.  The chief writes it, and the other workers compare it with theirs."""


def found_racks(prepared: Prepared, stores: Sequence[KeyValueStore]) -> Topology:
    """Returns the racks of all workers; without a `rack_file` it waits until each has told its rack.

    The racks of a running job stay as they are: a worker that comes back from elsewhere keeps the place that it had.

    Args:
      prepared: the task.
      stores: of all ps.

    Raises:
      UnreachableError: a worker has not told its rack in time.
    """
    if not prepared.job.has_racks or not prepared.topology.is_flat:
        return prepared.topology
    tasks = [str(task) for task in prepared.cluster.replicas()]

    def read() -> Topology:
        items = patient(stores[0].items)
        if _TOPOLOGY in items:
            found = {task: str(rack) for task, rack in read_object(items[_TOPOLOGY]).items()}
        else:
            found = {status.task: status.rack for status in task_statuses(items) if status.rack}
        missing = [task for task in tasks if task not in found]
        if missing:
            raise NotReadyError(f"{', '.join(missing[:5])} has not told its rack: give each worker --rack")
        return Topology.of({task: found[task] for task in tasks} | _racks_of_ps(stores), prepared.cluster)

    topology = retry_until(read, prepared.job.startup_timeout_secs, "the racks of all workers")
    rack = topology.racks[str(prepared.task)]
    if rack != prepared.job.rack:
        log.warning(
            "%s, but %s stays in rack %s, its place in the running job",
            described(prepared.job, "rack"),
            prepared.task,
            rack,
        )
    return topology


def _racks_of_ps(stores: Sequence[KeyValueStore]) -> dict[str, str]:
    """Returns the rack of each ps that was given one."""
    texts = [patient(functools.partial(store.get, records.IDENTITY)) for store in stores]
    found = [Identity.from_json(text) for text in texts if text]
    return {identity.task: identity.rack for identity in found if identity.rack}


def confirm_racks(prepared: Prepared, topology: Topology, store: KeyValueStore) -> None:
    """Compares the racks with those of the chief, which writes them.

    Args:
      prepared: the task.
      topology: the racks as it knows them.
      store: of ps 0.

    Raises:
      RefusedError: they differ; the text shows the differences.
    """
    if topology.is_flat:
        return
    own = {task: rack for task, rack in topology.racks.items() if not task.startswith("ps:")}
    if prepared.is_chief:
        text = store.compare_and_set(_TOPOLOGY, "", json.dumps(own)) or json.dumps(own)
    else:
        timeout_secs = prepared.job.startup_timeout_secs
        text = told_by_chief(store, _TOPOLOGY, "told the racks", prepared.cluster, timeout_secs)
    found = diff_configs(read_object(text), own, "the job", "this task")
    if found:
        raise RefusedError(f"the racks of the workers are not the same in all tasks: {'; '.join(found)}.")
