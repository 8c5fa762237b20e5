"""The racks of a job: each worker learns the rack of every other one, and all of them agree.

prepared = with_topology(prepared, store)
member = rack_member(prepared, joined)
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from ps_train.base.errors import RefusedError
from ps_train.base.untrusted import read_object
from ps_train.cluster.membership import records
from ps_train.cluster.membership.connect import NotReadyError, patient, retry_until
from ps_train.cluster.membership.job_diff import diff_configs
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.records import task_statuses
from ps_train.cluster.topology import Topology
from ps_train.training.loop.rack import RackMember
from ps_train.training.tasks.join import Joined
from ps_train.training.tasks.prepare import Prepared


def with_topology(prepared: Prepared, store: KeyValueStore) -> Prepared:
    """Returns the task with the racks of all workers; without a `rack_file` it waits until each has told its rack.

    Args:
      prepared: the task.
      store: of ps 0.

    Raises:
      UnreachableError: a worker has not told its rack in time.
    """
    if prepared.topology is not None:
        return prepared
    tasks = [str(task) for task in prepared.cluster.replicas()]

    def read() -> Topology:
        found = {status.task: status.rack for status in task_statuses(patient(store.items)) if status.rack}
        missing = [task for task in tasks if task not in found]
        if missing:
            raise NotReadyError(f"{', '.join(missing[:5])} has not told its rack: give each worker --rack")
        return Topology.of({task: found[task] for task in tasks}, prepared.cluster)

    topology = retry_until(read, prepared.job.startup_timeout_secs, "the racks of all workers")
    return dataclasses.replace(prepared, topology=topology)


def agree_on_topology(topology: Topology, store: KeyValueStore, is_chief: bool, timeout_secs: float) -> None:
    """Compares the racks with those of the chief, which writes them.

    Args:
      topology: the racks as this task knows them.
      store: of ps 0.
      is_chief: True if this task is the chief.
      timeout_secs: seconds to wait for the chief.

    Raises:
      RefusedError: they differ; the text shows the differences.
    """
    own = topology.described()

    def read() -> str:
        text = patient(lambda: store.get(records.TOPOLOGY))
        if not text:
            raise NotReadyError("the chief has not told the racks yet")
        return str(text)

    if is_chief:
        text = store.compare_and_set(records.TOPOLOGY, "", json.dumps(own)) or json.dumps(own)
    else:
        text = retry_until(read, timeout_secs, "the racks of the job")
    found = diff_configs(read_object(text), own, "the job", "this task")
    if found:
        raise RefusedError(f"the racks of the workers are not the same in all tasks: {'; '.join(found)}.")


def rack_member(prepared: Prepared, joined: Joined) -> RackMember:
    """Returns the worker among those of its rack; its heartbeat then tells it what happens to the others."""
    topology, task, heartbeat = prepared.topology, prepared.task, joined.heartbeat
    assert topology is not None, "with_topology has found it"
    place = topology.place(task)
    member = RackMember(
        prepared.job,
        place.name,
        topology.workers[place.index],
        str(task),
        prepared.cluster.address(task).host,
        heartbeat.process_id,
        joined.stores[0],
        joined.events.stop.is_set,
    )
    observe = heartbeat.observe

    def update(index: int, found: Mapping[str, str]) -> None:
        observe(index, found)
        if index == 0:
            member.update(found)

    heartbeat.observe = update
    return member
