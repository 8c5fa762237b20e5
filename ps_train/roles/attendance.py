"""Who takes part in a job, as the chief sees it: who has left, who is back, and whether enough remain.

    attendance = Attendance(tasks, join_secs=120, lease_secs=10, now=time.monotonic())
    changes = attendance.look(seats, time.monotonic())       # [Change("worker:1", present=False, why=...)]

Pure: fed with the seats of a board, and the time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from ps_train.cluster.notices import INPUT_ENDED, LEFT, Seat

_AWAY = {INPUT_ENDED: "has no input left", LEFT: "has left"}


@dataclasses.dataclass(frozen=True)
class Change:
    """A task that takes part no longer, or again.  `place` is where its process runs, where that is known."""

    task: str
    present: bool
    place: str
    why: str


@dataclasses.dataclass
class _Record:
    present: bool = True
    seat: Seat | None = None
    heard: float = 0.0


class Attendance:
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
        self._records = {task: _Record(heard=now) for task in tasks}

    @property
    def present(self) -> list[str]:
        return [task for task, record in self._records.items() if record.present]

    @property
    def absent(self) -> list[str]:
        """The others who are expected, or who came."""
        return [task for task, record in self._records.items() if not record.present]

    def excuse(self, secs: float) -> None:
        """For so long nobody could be heard."""
        for record in self._records.values():
            record.heard += secs

    def look(self, seats: Iterable[Seat], now: float) -> list[Change]:
        found = {seat.task: seat for seat in seats}
        for task in found.keys() - self._records.keys() if self._is_open else ():
            self._records[task] = _Record(present=False)
        changes: list[Change] = []
        for task, record in self._records.items():
            changes += self._look_at(task, record, found.get(task), now)
        return changes

    def _look_at(self, task: str, record: _Record, seat: Seat | None, now: float) -> list[Change]:
        before, record.seat = record.seat, seat or record.seat
        spoke = seat is not None and (before is None or (before.holder, before.beat) != (seat.holder, seat.beat))
        if spoke:
            record.heard = now
        absent = self._absence(record, now)
        place = record.seat.place() if record.seat else task
        if absent:
            changes = [Change(task, False, place, absent)] if record.present else []
        elif not record.present:
            changes = [Change(task, True, place, "has joined" if before is None else "is back")]
        elif before is not None and seat is not None and before.holder != seat.holder:
            changes = [Change(task, True, place, f"has taken the place of pid {before.pid}")]
        else:
            changes = []
        record.present = not absent
        return changes

    def _absence(self, record: _Record, now: float) -> str:
        """Why a task does not take part, if it does not."""
        silent = now - record.heard
        if record.seat is None:
            return (
                f"has not joined within {self._join_secs:g}s (startup_timeout_secs)" if silent > self._join_secs else ""
            )
        if record.seat.state in _AWAY:
            return _AWAY[record.seat.state]
        return f"has said nothing for {self._lease_secs:g}s (worker_lease_secs)" if silent > self._lease_secs else ""
