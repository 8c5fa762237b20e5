"""Membership: the training tasks that take part in a job, as the chief sees it.

    membership = Membership(tasks, join_secs=120, lease_secs=10, now=time.monotonic())
    changes = membership.update(statuses, time.monotonic())     # [MembershipChange("worker:1", present=False, ...)]

Pure: the caller passes the statuses read from a store, and the time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from ps_train.coordination.liveness import LivenessTracker
from ps_train.coordination.records import TaskState, TaskStatus

_AWAY: dict[str, str] = {TaskState.INPUT_ENDED: "has no input left", TaskState.LEFT: "has left"}


@dataclasses.dataclass(frozen=True)
class MembershipChange:
    """A task that has left, joined or come back.

    Attributes:
      task: its name.
      present: whether it takes part now.
      location: its task, host and pid; the task alone where no process is known.
      reason: why it changed, as the end of a sentence that begins with `location`.
    """

    task: str
    present: bool
    location: str
    reason: str


@dataclasses.dataclass
class _Member:
    present: bool = True
    status: TaskStatus | None = None


class Membership:
    """The members of a job.  An expected task counts as present until it has not joined in time.

    Args:
      tasks: the expected tasks.
      join_secs: seconds that a task may take to join.
      lease_secs: seconds that a task may be silent.
      now: seconds of a monotonic clock.
      is_open: whether other tasks may join.
    """

    def __init__(
        self, tasks: Sequence[str], join_secs: float, lease_secs: float, now: float, is_open: bool = False
    ) -> None:
        self._join_secs, self._lease_secs, self._is_open = join_secs, lease_secs, is_open
        self._members = {task: _Member() for task in tasks}
        self._tracker = LivenessTracker()
        for task in tasks:
            self._tracker.silent_secs(task, None, now)

    @property
    def present(self) -> list[str]:
        """The tasks that take part."""
        return [task for task, member in self._members.items() if member.present]

    @property
    def absent(self) -> list[str]:
        """The expected or joined tasks that do not take part now."""
        return [task for task, member in self._members.items() if not member.present]

    def extend_deadlines(self, secs: float) -> None:
        """Leaves out `secs` in which no status could be read."""
        self._tracker.extend(secs)

    def update(self, statuses: Iterable[TaskStatus], now: float) -> list[MembershipChange]:
        """Takes in the statuses that were read; returns the changes since the last update."""
        found = {status.task: status for status in statuses}
        for task in found.keys() - self._members.keys() if self._is_open else ():
            self._members[task] = _Member(present=False)
        changes: list[MembershipChange] = []
        for task, member in self._members.items():
            changes += self._update_task(task, member, found.get(task), now)
        return changes

    def _update_task(self, task: str, member: _Member, status: TaskStatus | None, now: float) -> list[MembershipChange]:
        before, member.status = member.status, status or member.status
        heartbeat = (member.status.process_id, member.status.heartbeat) if member.status else None
        absent = self._absence_reason(member, self._tracker.silent_secs(task, heartbeat, now))
        location = member.status.location() if member.status else task
        if absent:
            changes = [MembershipChange(task, False, location, absent)] if member.present else []
        elif not member.present:
            changes = [MembershipChange(task, True, location, "has joined" if before is None else "is back")]
        elif before is not None and status is not None and before.process_id != status.process_id:
            changes = [MembershipChange(task, True, location, f"has taken the place of pid {before.pid}")]
        else:
            changes = []
        member.present = not absent
        return changes

    def _absence_reason(self, member: _Member, silent: float) -> str:
        """Returns why a task does not take part; empty if it does."""
        if member.status is None:
            return (
                f"has not joined within {self._join_secs:g}s (startup_timeout_secs)" if silent > self._join_secs else ""
            )
        if member.status.state in _AWAY:
            return _AWAY[member.status.state]
        return (
            f"has said nothing for {self._lease_secs:g}s (heartbeat_timeout_secs)" if silent > self._lease_secs else ""
        )
