"""How many steps make a burst, and how many of them a run: from the time that steps take.

    rhythm = Rhythm.of(job)
    rhythm.burst(), rhythm.run(left=12)               # 1, 1: nothing is known yet
    rhythm.took(steps=1, secs=0.004)

A burst lasts about BURST_SECS, and no run of it longer: the loop looks up between its runs.  To prepare the graph of a
length that is new takes TensorFlow as long as many steps: so the first steps are made one by one, and few lengths are
used.
"""

from __future__ import annotations

import statistics
from collections import deque

from ps_train.config.job import AUTO, Job

BURST_SECS = 0.2
_FIRST = 3
"""How many steps are timed one by one before there are runs of several."""
_MIN_STEPS_FOR_LONG_CALLS = 0.75
"""Of a burst, as much as a run may last to be begun."""
_GROWTH = 32
"""How many times longer than the one before it a burst may be: times may be wrong."""


class BurstScheduler:
    """Args:
    longest_run: the most steps that a run may make.
    fixed: whether runs are of just this length, however long they last.
    """

    def __init__(self, longest_run: int = 1, fixed: bool = False) -> None:
        self._lengths, self._fixed = call_lengths(longest_run, fixed), fixed
        self._steps = 1
        self._secs: deque[float] = deque(maxlen=5)
        self._prepared: set[int] = set()
        self._prepares_graphs = True  # the very first step

    @classmethod
    def of(cls, job: Job) -> BurstScheduler:
        return cls(job.longest_run, fixed=job.steps_per_run != AUTO)

    def next_burst(self) -> int:
        """Steps of the next burst: some runs, and the one step alone that ends it."""
        if self._fixed:
            steps = max(self._steps, self._lengths[0] + 1) if self._lengths[0] > 1 else self._steps
        else:
            steps = self._steps if len(self._secs) >= _FIRST else 1
        longest = self._longest(steps - 1)
        return steps if longest == 1 else (steps - 1) // longest * longest + 1

    def next_call_length(self, left: int) -> int:
        """Steps of the next run, which is made now, where so many are left; at least 1."""
        length = self._longest(left)
        if length not in self._prepared:
            self._prepared.add(length)
            self._prepares_graphs = True
        return length

    def record(self, steps: int, secs: float) -> None:
        """Burst by burst.  What was run for the first time says nothing of how long steps take."""
        if self._prepares_graphs:
            self._prepares_graphs = False
            return
        self._secs.append(secs / steps)
        self._steps = max(1, min(int(steps * BURST_SECS / max(secs, 1e-6)), _GROWTH * steps))

    def _longest(self, left: int) -> int:
        fitting = [length for length in self._lengths if length <= left and (self._fixed or self._fits(length))]
        return max(fitting, default=1)

    def _fits(self, length: int) -> bool:
        """By the fastest of some bursts; a length that is new, by most of them and with room to spare, lest it be too
        long again soon."""
        if not self._secs:
            return False
        if length in self._prepared:
            return length * min(self._secs) <= BURST_SECS
        return length * statistics.median(self._secs) <= _MIN_STEPS_FOR_LONG_CALLS * BURST_SECS


def call_lengths(longest: int, fixed: bool) -> list[int]:
    """The lengths that runs may have, longest first: few, since each is a graph of its own."""
    if fixed:
        return sorted({longest, 1}, reverse=True)
    return [longest >> times for times in range(longest.bit_length())]
