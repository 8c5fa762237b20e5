"""How many steps make a burst, and how many of them a run: from the time that steps take.

    rhythm = Rhythm(longest_run=8)
    rhythm.burst(), rhythm.run(left=12)               # 1, 1: nothing is known yet
    rhythm.took(steps=1, secs=0.004)

A burst lasts about BURST_SECS; the loop looks up between its runs, none of which shall last longer than RUN_SECS, or
than a burst where pulls are fetched ahead: that is done within a run only.
"""

from __future__ import annotations

from collections import deque

BURST_SECS = 0.2
RUN_SECS = 0.1


class Rhythm:
    """Args:
    longest_run: the most steps that a run may make.
    fixed: whether runs are of just this length, however long they last.
    ahead: whether pulls are fetched ahead.
    """

    def __init__(self, longest_run: int = 1, fixed: bool = False, ahead: bool = False) -> None:
        self._lengths = run_lengths(longest_run, fixed)
        self._fixed, self._run_secs = fixed, BURST_SECS if ahead else RUN_SECS
        self._steps = 1
        # The shortest of some: where a graph runs for the first time TensorFlow takes time to prepare it.
        self._secs: deque[float] = deque(maxlen=5)

    def burst(self) -> int:
        """Steps of the next burst: some runs, and the one step alone that ends it."""
        steps = self._steps
        if self._fixed and self._lengths[0] > 1:
            steps = max(steps, self._lengths[0] + 1)
        longest = self.run(steps - 1)
        return steps if longest == 1 else (steps - 1) // longest * longest + 1

    def run(self, left: int) -> int:
        """Steps of the next run, where so many are left; at least 1."""
        fitting = [length for length in self._lengths if length <= left and (self._fixed or self._fits(length))]
        return max(fitting, default=1)

    def took(self, steps: int, secs: float) -> None:
        """Burst by burst; the next one is at most twice as long as it has been."""
        self._secs.append(secs / steps)
        self._steps = max(1, min(int(steps * BURST_SECS / max(secs, 1e-6)), 2 * self._steps))

    def _fits(self, length: int) -> bool:
        return bool(self._secs) and length * min(self._secs) <= self._run_secs


def run_lengths(longest: int, fixed: bool) -> list[int]:
    """The lengths that runs may have, longest first: each is a graph that TensorFlow has to prepare."""
    lengths = [longest]
    while not fixed and lengths[-1] > 1:
        lengths.append(lengths[-1] // 2)
    return lengths if lengths[-1] == 1 else [*lengths, 1]
