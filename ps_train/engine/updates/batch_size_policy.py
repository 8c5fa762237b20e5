"""The choice of a batch size from the measured cost of synchronisation.  Pure.

    policy = BatchSizePolicy(sizes=(64, 128, 256, 512), limit=0.2)
    policy.next_size(64, share=0.7, examples_per_sec=900.0)      # 128

A pull and a push cost as much for a large batch as for a small one.  So batches grow while synchronisation takes more
than `limit` of a step.  A growth that does not raise the examples per second is taken back, because then something
else is the limit: the ps, another worker, or the bytes of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

MIN_GAIN = 1.05
"""Smallest ratio of the examples per second after a growth to those before it that keeps the larger size."""

_FIRST_PATIENCE = 4
"""Measurements after a useless growth until the next one; doubled each time, so that sizes do not swing."""

_CALM = 3
"""Consecutive measurements that must speak for a smaller size."""


class BatchSizePolicy:
    """A state machine that chooses the next size of batches.

    Args:
      sizes: the possible sizes, each twice the one before.
      limit: the share of a step that synchronisation may take, above 0.
    """

    def __init__(self, sizes: Sequence[int], limit: float) -> None:
        self._sizes, self._limit = tuple(sizes), limit
        self._before: tuple[int, float] | None = None  # size and examples per second before a growth on trial
        self._wait, self._patience = 0, _FIRST_PATIENCE
        self._calm = 0

    def next_size(self, size: int, share: float, examples_per_sec: float) -> int:
        """Returns the size of the next batches.

        Args:
          size: the present size, with which the following was measured.
          share: the share of a step's time that synchronisation took, 0..1.
          examples_per_sec: the examples per second of the whole job.
        """
        before, self._before = self._before, None
        if before is not None and before[0] < size and examples_per_sec < MIN_GAIN * before[1]:
            self._wait, self._patience = self._patience, 2 * self._patience
            return before[0]
        if share > self._limit:
            self._calm = 0
            return self._grown(size, examples_per_sec)
        self._wait = 0
        return self._shrunk(size, share)

    def _grown(self, size: int, examples_per_sec: float) -> int:
        if self._wait:
            self._wait -= 1
            return size
        larger = min((other for other in self._sizes if other > size), default=size)
        if larger > size:
            self._before = size, examples_per_sec
        return larger

    def _shrunk(self, size: int, share: float) -> int:
        """Returns a smaller size if synchronisation would stay far below the limit with it: half of the limit.

        Half of a batch halves the computation.  Synchronisation then takes 2 share / (1 + share) of a step.
        """
        self._calm = self._calm + 1 if 2 * share / (1 + share) < self._limit / 2 else 0
        if self._calm < _CALM:
            return size
        self._calm = 0
        return max((other for other in self._sizes if other < size), default=size)
