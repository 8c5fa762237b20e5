"""What the chief does about who takes part: says it aloud, makes nobody wait for those who left, and ends a job for
which too few are left.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Sequence

from ps_train.cluster.spec import Cluster
from ps_train.config.job import Job
from ps_train.coordination.membership import Membership, MembershipChange
from ps_train.coordination.records import TaskStatus
from ps_train.coordination.stall_detector import StallDetector
from ps_train.errors import PsTrainError, TooFewWorkersError

log = logging.getLogger(__name__)

_ASK_SECS, _STALL_SECS = 5.0, 30.0


class BackgroundTask:
    """A thread that does what it is given, one thing at a time.  What it is given while it is busy is left out."""

    def __init__(self) -> None:
        self._work: queue.Queue[Callable[[], None]] = queue.Queue(1)
        threading.Thread(target=self._do, daemon=True, name="members").start()

    def __call__(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(queue.Full):
            self._work.put_nowait(work)

    def _do(self) -> None:
        while True:
            self._work.get()()


class MembershipMonitor:
    """Listens to the heart in the place of `Watch`: the chief needs nobody in particular.

    Args:
      run: runs what asks the ps, apart from the caller, which must not wait for a ps that is silent.

    Attributes:
      dismiss: to be set when there is a session: takes a replica's index, sees to it that no step waits for that
        replica; returns False where that was not possible.
      awaited: to be set with it: the global step, and the indices of the replicas for whom others wait; None where
        that cannot be known now.
    """

    def __init__(self, job: Job, cluster: Cluster, now: float, run: Callable[[Callable[[], None]], object]) -> None:
        self._job, self._run = job, run
        self._absent: Sequence[str] = ()
        self._tasks = [str(task) for task in cluster.possible_replicas()]
        declared = self._tasks[: cluster.num_replicas]
        self._of = "" if job.elastic else f" of {len(declared)}"
        self._membership = Membership(declared, job.startup_timeout_secs, job.worker_lease_secs, now, job.elastic)
        self.remove_replica: Callable[[int], object] | None = None
        self.awaited: Callable[[], tuple[int, list[int]] | None] | None = None
        self._stall, self._asked = StallDetector(_STALL_SECS), now

    def present(self) -> list[str]:
        """The tasks that take part."""
        return self._membership.present

    def extend_deadlines(self, secs: float) -> None:
        self._membership.extend_deadlines(secs)

    def update(self, seats: Iterable[TaskStatus], now: float) -> PsTrainError | None:
        changes = self._membership.update(seats, now)
        for change in changes:
            log.warning("%s %s; %s", change.location, change.reason, self._update_in_background())
        error = self._too_few(changes)
        if error is None:  # else nobody is to go on
            self._absent = self._membership.absent
            self._run(lambda: self._ask_who_is_awaited(now))
        return error

    def _ask_who_is_awaited(self, now: float) -> None:
        self._remove_absent()
        self._report_stall(now)

    def _remove_absent(self) -> None:
        """At every look: a ps may not have answered, and a step of somebody thought dead may have come after all.
        A ps that does not answer now is not asked for the others either."""
        for task in self._absent:
            if self.remove_replica is None or task not in self._absent:  # the latter may be new
                continue
            if self.remove_replica(self._tasks.index(task)) is False:
                return

    def _report_stall(self, now: float) -> None:
        if self.awaited is None or now - self._asked < _ASK_SECS:
            return
        self._asked = now
        found = self.awaited()
        if found is not None:
            told = self._stall.update(found[0], [self._tasks[index] for index in found[1]], now)
            if told is not None:
                log.warning("%s", told)

    def _update_in_background(self) -> str:
        present = len(self._membership.present)
        if present == 0:
            return "nobody is left to train"
        if self._job.update == "sync":
            return f"the quorum is now {max(1, present - self._job.backup_workers)}{self._of} workers"
        return f"training goes on with {present}{self._of} workers"

    def _too_few(self, changes: Iterable[MembershipChange]) -> PsTrainError | None:
        left = [change for change in changes if not change.present]
        present = len(self._membership.present)
        if not left or present >= self._job.min_workers or present == 0:
            return None  # nobody is present when the chief itself has no input left: it ends the job
        return TooFewWorkersError(
            f"{left[-1].location} {left[-1].reason}: {present}{self._of} workers remain, "
            f"fewer than min_workers={self._job.min_workers}"
        )
