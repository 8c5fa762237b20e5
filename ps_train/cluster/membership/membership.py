"""Membership: the training tasks that take part in a job, as the chief sees it.

    membership = Membership(tasks, join_secs=120, lease_secs=10, now=time.monotonic())
    changes = membership.update(statuses, time.monotonic())     # [MembershipChange("worker:1", present=False, ...)]

Pure: the caller passes the statuses read from a store, and the time.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterable, Sequence

from ps_train.base.errors import PsTrainError, TooFewWorkersError
from ps_train.base.lifecycle import event
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership.liveness import LivenessTracker, StallDetector
from ps_train.cluster.membership.records import TaskState, TaskStatus
from ps_train.config.job import Job

log = logging.getLogger(__name__)

_ASK_SECS, _STALL_SECS = 5.0, 30.0


class MembershipMonitor:
    """Takes the place of `FailureDetector` in the chief, which needs no particular task.

    Args:
      job: the job's settings.
      cluster: gives the declared and the possible replicas.
      now: seconds of a monotonic clock.
    """

    def __init__(self, job: Job, cluster: Cluster, now: float) -> None:
        self._job = job
        self._absent: Sequence[str] = ()
        self._tasks = [str(task) for task in cluster.possible_replicas()]
        declared = self._tasks[: cluster.num_replicas]
        self._declared = len(declared)
        self._of_declared = "" if job.is_elastic else f" of {len(declared)}"
        self._membership = Membership(
            declared, job.startup_timeout_secs, job.heartbeat_timeout_secs, now, job.is_elastic
        )
        self._stall, self._asked, self._is_over = StallDetector(_STALL_SECS), now, False

    def present(self) -> list[str]:
        """Returns the tasks that take part."""
        return self._membership.present

    def is_silent(self, status: TaskStatus) -> bool:
        """Returns whether a task that was read just now has had this heartbeat for longer than it may."""
        return self._membership.is_silent(status)

    def extend_deadlines(self, secs: float) -> None:
        """Leaves out `secs` in which no status could be read."""
        self._membership.extend_deadlines(secs)

    def update(self, statuses: Iterable[TaskStatus], now: float) -> PsTrainError | None:
        """Logs the changes; returns an error if too few workers remain."""
        changes = self._membership.update(statuses, now)
        for change in changes:
            kind = event("joined" if change.present else "lost", change.task)
            log.warning("%s %s; %s", change.location, change.reason, self._consequence(), extra=kind)
        error = self._too_few(changes)
        self._is_over |= error is not None
        if not self._is_over:  # else a step that waits for a lost replica would go on while the chief saves
            self._absent = self._membership.absent
        return error

    def care(
        self, remove: Callable[[int], bool], awaited: Callable[[], tuple[int, list[int]] | None], now: float
    ) -> None:
        """Removes all absent replicas, and logs who holds up the others; called after every update.

        A ps may not have answered before, and a step of a replica thought dead may have arrived after all.  Once a ps
        does not answer, the remaining replicas are left for the next time.

        Args:
          remove: takes a replica's index and makes no step wait for that replica; returns False where that was not
            possible.
          awaited: returns the global step and the indices of the replicas that others wait for, or None where they are
            not known now.
          now: seconds of a monotonic clock.
        """
        if self._is_over:
            return
        for task in self._absent:
            if task in self._absent and not remove(self._tasks.index(task)):  # another thread replaces _absent
                break
        if now - self._asked < _ASK_SECS:
            return
        self._asked = now
        found = awaited()
        if found is not None:
            line = self._stall.update(found[0], [self._tasks[index] for index in found[1]], now)
            if line is not None:
                log.warning("%s", line)

    def _consequence(self) -> str:
        """Returns how training continues with the present members, for a log line."""
        present = len(self._membership.present)
        if present == 0:
            return "all input has been read" if self._membership.has_ended else "no worker is left to train"
        if self._job.update == "sync":
            backups = self._job.backup_limits(self._declared)
            words = "the quorum is now at most" if backups.is_range else "the quorum is now"
            return f"{words} {max(1, present - backups.lower)}{self._of_declared} workers"
        return f"training continues with {present}{self._of_declared} workers"

    def _too_few(self, changes: Iterable[MembershipChange]) -> PsTrainError | None:
        left = [change for change in changes if not change.present]
        present = len(self._membership.present)
        if not left or present >= self._job.min_workers or present == 0:
            return None  # no task is present when the chief itself has no input left; it ends the job
        return TooFewWorkersError(
            f"{left[-1].location} {left[-1].reason}: {present}{self._of_declared} workers remain, "
            f"fewer than min_workers={self._job.min_workers}"
        )


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
    silent: bool = False
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

    @property
    def has_ended(self) -> bool:
        """True if no member takes part, and the last state of each was that it had no input left, or left."""
        states = [member.status.state for member in self._members.values() if member.status is not None]
        return not self.present and bool(states) and all(state in (*_AWAY, TaskState.LEAVING) for state in states)

    def is_silent(self, status: TaskStatus) -> bool:
        """Returns whether a task had this very heartbeat at the last update, for longer than it may."""
        member = self._members.get(status.task)
        known = member.status if member is not None and member.silent else None
        return known is not None and known.sign_of_life == status.sign_of_life

    def extend_deadlines(self, secs: float) -> None:
        """Leaves out `secs` in which no status could be read."""
        self._tracker.extend(secs)

    def update(self, statuses: Iterable[TaskStatus], now: float) -> list[MembershipChange]:
        """Takes in the statuses that were read; returns the changes since the last update."""
        found = {status.task: status for status in statuses}
        for task in found.keys() - self._members.keys() if self._is_open else ():
            if found[task].state != TaskState.PREPARING:
                self._members[task] = _Member(present=False)
        changes: list[MembershipChange] = []
        for task, member in self._members.items():
            changes += self._update_task(task, member, found.get(task), now)
        return changes

    def _update_task(self, task: str, member: _Member, status: TaskStatus | None, now: float) -> list[MembershipChange]:
        before, member.status = member.status, status or member.status
        silent_secs = self._tracker.silent_secs(task, member.status.sign_of_life if member.status else None, now)
        member.silent = silent_secs > self._lease_secs
        absent = self._absence_reason(member, silent_secs)
        location = member.status.location() if member.status else task
        if absent:
            changes = [MembershipChange(task, False, location, absent)] if member.present else []
        elif not member.present:
            changes = [MembershipChange(task, True, location, "has joined" if before is None else "is back")]
        elif before is not None and status is not None and _is_other_process(before, status):
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
        if member.status.state == TaskState.LEAVING and not member.present:
            return "is leaving"  # it is not back: it has read how the job ended
        return (
            f"has said nothing for {self._lease_secs:g}s (heartbeat_timeout_secs)" if silent > self._lease_secs else ""
        )


def _is_other_process(before: TaskStatus, now: TaskStatus) -> bool:
    return before.process_id != now.process_id and before.state != TaskState.PREPARING
