"""The choice of how far a job goes on without its slowest worker, from the measured time that workers wait.  Pure.

    policy = WaitPolicy(lower=0, upper=8)
    policy.next_limit(1, waiting=0.3, examples_per_sec=900.0)      # 2

The limit is the lead of `bounded` (--max_steps_ahead=0..8) or the backup workers of `sync` (--backup_workers=auto).  A
larger one costs something: staleness, or the work of the latest workers.  So it grows only while workers wait for more
than a part of their time.  A growth after which they wait as long is taken back, because a worker that is always the
slowest holds up a job with any lead; so is one that lowers the examples per second, because backup workers lose work.
The limit shrinks again where nobody waits.
"""

from __future__ import annotations

WAITING = 0.05
"""Largest share of their time for which workers may wait."""

_LESS_WAITING = 0.9
"""Largest ratio of the waiting after a growth to that before it which keeps the larger limit."""

_SAME = 0.97
"""Smallest ratio of two measurements of the examples per second that counts as no loss."""

_CALM = 3
"""Consecutive measurements almost without waiting after which a smaller limit is tried."""

_FIRST_PATIENCE, _MOST_PATIENCE = 4, 64
"""Measurements after a useless trial until the next one in that direction; doubled each time."""


class WaitPolicy:
    """A state machine that chooses the next limit.

    Args:
      lower: the smallest limit.
      upper: the largest limit.
    """

    def __init__(self, lower: int, upper: int) -> None:
        self._lower, self._upper = lower, upper
        self._before: tuple[int, float, float] | None = None  # limit, waiting and examples/s before a trial
        self._grow, self._shrink = _Patience(), _Patience()
        self._calm = 0

    def next_limit(self, limit: int, waiting: float, examples_per_sec: float) -> int:
        """Returns the limit for the next measurement.

        Args:
          limit: the present limit, with which the following was measured.
          waiting: the share of the time of all workers that they waited for others, 0..1.
          examples_per_sec: the examples per second of the whole job.
        """
        before, self._before = self._before, None
        self._grow.pass_by()
        self._shrink.pass_by()
        if before is not None:
            has_grown, is_slower = limit > before[0], examples_per_sec < _SAME * before[2]
            if is_slower or waiting > (_LESS_WAITING * before[1] if has_grown else WAITING):
                (self._grow if has_grown else self._shrink).wait()
                return before[0]
        self._calm = self._calm + 1 if waiting < WAITING / 2 else 0
        if waiting > WAITING and limit < self._upper and self._grow.is_over:
            self._before = limit, waiting, examples_per_sec
            return limit + 1
        if self._calm >= _CALM and limit > self._lower and self._shrink.is_over:
            self._calm = 0
            self._before = limit, waiting, examples_per_sec
            return limit - 1
        return limit


class _Patience:
    """Measurements to wait for, more after each useless trial."""

    def __init__(self) -> None:
        self._left, self._next = 0, _FIRST_PATIENCE

    @property
    def is_over(self) -> bool:
        return self._left == 0

    def pass_by(self) -> None:
        self._left = max(0, self._left - 1)

    def wait(self) -> None:
        self._left, self._next = self._next, min(2 * self._next, _MOST_PATIENCE)
