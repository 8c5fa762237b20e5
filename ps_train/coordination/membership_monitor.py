"""The chief's membership monitor: it logs changes, releases replicas that wait for absent ones, and ends small jobs.

A job ends when fewer than min_workers remain.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from ps_train.cluster.spec import Cluster
from ps_train.config.job import Job
from ps_train.coordination.membership import Membership, MembershipChange
from ps_train.coordination.records import TaskStatus
from ps_train.coordination.stall_detector import StallDetector
from ps_train.errors import PsTrainError, TooFewWorkersError
from ps_train.runtime.lifecycle import event

log = logging.getLogger(__name__)

_ASK_SECS, _STALL_SECS = 5.0, 30.0


class MembershipMonitor:
    """Takes the place of `FailureDetector` in the chief, which needs no particular task.

    Args:
      job: the job's settings.
      cluster: gives the declared and the possible replicas.
      now: seconds of a monotonic clock.
      run: runs a function that calls the ps.  It returns at once, since the caller must not wait for a silent ps.

    Attributes:
      remove_replica: a function set when there is a session.  It takes a replica's index and makes no step wait for
        that replica.  It returns False where that was not possible.
      awaited: a function set together with `remove_replica`.  It returns the global step and the indices of the
        replicas that others wait for, or None where they are not known now.
    """

    def __init__(self, job: Job, cluster: Cluster, now: float, run: Callable[[Callable[[], None]], object]) -> None:
        self._job, self._run = job, run
        self._absent: Sequence[str] = ()
        self._tasks = [str(task) for task in cluster.possible_replicas()]
        declared = self._tasks[: cluster.num_replicas]
        self._of_declared = "" if job.is_elastic else f" of {len(declared)}"
        self._membership = Membership(
            declared, job.startup_timeout_secs, job.heartbeat_timeout_secs, now, job.is_elastic
        )
        self.remove_replica: Callable[[int], object] | None = None
        self.awaited: Callable[[], tuple[int, list[int]] | None] | None = None
        self._stall, self._asked = StallDetector(_STALL_SECS), now

    def present(self) -> list[str]:
        """Returns the tasks that take part."""
        return self._membership.present

    def extend_deadlines(self, secs: float) -> None:
        """Leaves out `secs` in which no status could be read."""
        self._membership.extend_deadlines(secs)

    def update(self, statuses: Iterable[TaskStatus], now: float) -> PsTrainError | None:
        """Logs the changes and begins what follows from them; returns an error if too few workers remain."""
        changes = self._membership.update(statuses, now)
        for change in changes:
            kind = event("joined" if change.present else "lost", change.task)
            log.warning("%s %s; %s", change.location, change.reason, self._consequence(), extra=kind)
        error = self._too_few(changes)
        if error is None:  # with an error the job ends, and no replica needs to go on
            self._absent = self._membership.absent
            self._run(lambda: self._ask_who_is_awaited(now))
        return error

    def _ask_who_is_awaited(self, now: float) -> None:
        self._remove_absent()
        self._report_stall(now)

    def _remove_absent(self) -> None:
        """Removes all absent replicas, at every update.

        A ps may not have answered before, and a step of a replica thought dead may have arrived after all.  Once a ps
        does not answer, the remaining replicas are left for the next update.
        """
        for task in self._absent:
            if self.remove_replica is None or task not in self._absent:  # another thread replaces _absent
                continue
            if self.remove_replica(self._tasks.index(task)) is False:
                return

    def _report_stall(self, now: float) -> None:
        if self.awaited is None or now - self._asked < _ASK_SECS:
            return
        self._asked = now
        found = self.awaited()
        if found is not None:
            line = self._stall.update(found[0], [self._tasks[index] for index in found[1]], now)
            if line is not None:
                log.warning("%s", line)

    def _consequence(self) -> str:
        """Returns how training goes on with the present members, for a log line."""
        present = len(self._membership.present)
        if present == 0:
            return "no worker is left to train"
        if self._job.update == "sync":
            return f"the quorum is now {max(1, present - self._job.backup_workers)}{self._of_declared} workers"
        return f"training goes on with {present}{self._of_declared} workers"

    def _too_few(self, changes: Iterable[MembershipChange]) -> PsTrainError | None:
        left = [change for change in changes if not change.present]
        present = len(self._membership.present)
        if not left or present >= self._job.min_workers or present == 0:
            return None  # no task is present when the chief itself has no input left; it ends the job
        return TooFewWorkersError(
            f"{left[-1].location} {left[-1].reason}: {present}{self._of_declared} workers remain, "
            f"fewer than min_workers={self._job.min_workers}"
        )
