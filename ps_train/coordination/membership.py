"""Who takes part in a job, as the chief sees it: who has left, who is back, and whether enough remain.

    attendance = Attendance(tasks, join_secs=120, lease_secs=10, now=time.monotonic())
    changes = attendance.look(seats, time.monotonic())       # [Change("worker:1", present=False, why=...)]

Pure: fed with the seats of a board, and the time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from ps_train.coordination.liveness import LivenessTracker
from ps_train.coordination.records import INPUT_ENDED, LEFT, TaskStatus

_AWAY = {INPUT_ENDED: "has no input left", LEFT: "has left"}


@dataclasses.dataclass(frozen=True)
class MembershipChange:
    """A task that takes part no longer, or again.  `place` is where its process runs, where that is known."""

    task: str
    present: bool
    location: str
    reason: str


@dataclasses.dataclass
class _Member:
    present: bool = True
    status: TaskStatus | None = None


class Membership:
    """Everybody who is expected counts as present, until he has not come in time.

    Args:
      join_secs: how long a task may take to come.
      lease_secs: how long a task may be silent.
      is_open: whether others may come, whom nobody expects.
    """

    def __init__(
        self, tasks: Sequence[str], join_secs: float, lease_secs: float, now: float, is_open: bool = False
    ) -> None:
        self._join_secs, self._lease_secs, self._is_open = join_secs, lease_secs, is_open
        self._records = {task: _Member() for task in tasks}
        self._tracker = LivenessTracker()
        for task in tasks:
            self._tracker.silent_secs(task, None, now)

    @property
    def present(self) -> list[str]:
        return [task for task, record in self._records.items() if record.present]

    @property
    def absent(self) -> list[str]:
        """The others who are expected, or who came."""
        return [task for task, record in self._records.items() if not record.present]

    def extend_deadlines(self, secs: float) -> None:
        """For so long nobody could be heard."""
        self._tracker.extend(secs)

    def update(self, seats: Iterable[TaskStatus], now: float) -> list[MembershipChange]:
        found = {seat.task: seat for seat in seats}
        for task in found.keys() - self._records.keys() if self._is_open else ():
            self._records[task] = _Member(present=False)
        changes: list[MembershipChange] = []
        for task, record in self._records.items():
            changes += self._update_task(task, record, found.get(task), now)
        return changes

    def _update_task(self, task: str, record: _Member, seat: TaskStatus | None, now: float) -> list[MembershipChange]:
        before, record.status = record.status, seat or record.status
        heartbeat = (record.status.process_id, record.status.heartbeat) if record.status else None
        absent = self._absence_reason(record, self._tracker.silent_secs(task, heartbeat, now))
        place = record.status.location() if record.status else task
        if absent:
            changes = [MembershipChange(task, False, place, absent)] if record.present else []
        elif not record.present:
            changes = [MembershipChange(task, True, place, "has joined" if before is None else "is back")]
        elif before is not None and seat is not None and before.process_id != seat.process_id:
            changes = [MembershipChange(task, True, place, f"has taken the place of pid {before.pid}")]
        else:
            changes = []
        record.present = not absent
        return changes

    def _absence_reason(self, record: _Member, silent: float) -> str:
        """Returns why a task does not take part; empty if it does."""
        if record.status is None:
            return (
                f"has not joined within {self._join_secs:g}s (startup_timeout_secs)" if silent > self._join_secs else ""
            )
        if record.status.state in _AWAY:
            return _AWAY[record.status.state]
        return f"has said nothing for {self._lease_secs:g}s (worker_lease_secs)" if silent > self._lease_secs else ""
