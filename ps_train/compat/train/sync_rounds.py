"""Rounds of synchronous training: which worker's gradients count for an update, and which worker may go on.

    rounds = SyncRounds(["worker:0", "worker:1"], aggregate=2, step=0)
    rounds.arrive("worker:0", step=0)       # []: it waits
    rounds.arrive("worker:1", step=0)       # []
    rounds.complete()                       # 2: an update of two gradients is due
    rounds.updated(1)                       # ["worker:0", "worker:1"] go on

Pure: no TensorFlow, no processes.  `sync_leader.py` is the part that calls TensorFlow.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence


class SyncRounds:
    """State of the present round.  One update takes the same number of gradients of every worker.

    With as many gradients as workers, each worker gives exactly one.  With fewer (backup workers) the first ones count,
    and a late one is dropped.  With more, each worker computes several for one update.

    Args:
      workers: names of all workers.
      aggregate: the number of gradients of an update.
      step: the global step.

    Attributes:
      step: the global step of the present round.
      members: the workers that take part.
    """

    def __init__(self, workers: Sequence[str], aggregate: int, step: int) -> None:
        self._order, self._aggregate = list(workers), aggregate
        self.step, self.members = step, set(workers)
        self._arrived: collections.Counter[str] = collections.Counter()
        self._waiting: list[str] = []

    def arrive(self, worker: str, step: int) -> list[str]:
        """Notes a pushed gradient; returns the workers that may go on at once.

        Args:
          worker: the worker; one that had left is a member again.
          step: the global step of the gradient; an earlier one than the round's is dropped.
        """
        self.members.add(worker)
        if step < self.step:
            return [worker]
        self._arrived[worker] += 1
        if self._arrived[worker] < self.share(worker):
            return [worker]
        self._waiting.append(worker)
        return []

    def leave(self, worker: str) -> list[str]:
        """Removes a worker; a gradient that it has pushed stays in the round.

        Returns:
          The workers that waited and now have another gradient to compute for the update.
        """
        self.members.discard(worker)
        remain = [name for name in self._waiting if name != worker]
        again = [name for name in remain if self._arrived[name] < self.share(name)]
        self._waiting = [name for name in remain if name not in again]
        return again

    @property
    def arrived(self) -> int:
        """The number of gradients in the present round."""
        return self._arrived.total()

    def complete(self) -> int:
        """Returns the number of gradients of the update that is due; 0 while some are missing."""
        return self.arrived if self.missing() == 0 else 0

    def missing(self) -> int:
        """Returns the number of messages, arrivals or departures, until the round can be complete."""
        if self._aggregate < len(self.members):
            return max(0, self._aggregate - self.arrived)
        return sum(max(0, self.share(worker) - self._arrived[worker]) for worker in self.members)

    def expected(self) -> int:
        """Returns a number of messages, at least 1, that come before any worker needs an answer."""
        waiting = set(self._waiting)
        return max(1, min(self.missing(), len(self.members - waiting)))

    def updated(self, step: int) -> list[str]:
        """Begins the next round; returns the workers that waited.

        Args:
          step: the global step after the update.
        """
        waiting, self._waiting = self._waiting, []
        self._arrived.clear()
        self.step = step
        return waiting

    def share(self, worker: str) -> int:
        """Returns the number of gradients of a worker for one update: 1 unless an update takes more than workers."""
        members = [name for name in self._order if name in self.members]
        if worker not in members or self._aggregate <= len(self._order):
            return 1
        quotient, rest = divmod(self._aggregate, len(members))
        return quotient + (members.index(worker) < rest)
