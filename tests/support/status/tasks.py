"""Task statuses as other tasks read them from a key-value store."""

from __future__ import annotations

from ps_train.cluster.membership import records
from ps_train.cluster.membership.records import TaskState, TaskStatus


def task_status(task="worker:1", heartbeat=0, state=TaskState.TRAINING, process="a process"):
    return TaskStatus(task, process_id=f"{process} of {task}", host="host-b", pid=42, state=state, heartbeat=heartbeat)


def worker_status(index, heartbeat=0, state=TaskState.TRAINING, process="first"):
    """Like `task_status`; each worker has a pid of its own."""
    return TaskStatus(
        f"worker:{index}",
        process_id=f"{process} {index}",
        host="host-b",
        pid=40 + index,
        state=state,
        heartbeat=heartbeat,
    )


def store_of(*statuses):
    """The content of a key-value store with these statuses."""
    return {records.task_key(status.task): status.to_json() for status in statuses}
