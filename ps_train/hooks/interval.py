"""Interval between points in the event files: short at the beginning of a run, longer as the run grows.

    interval = Interval(least=2.0)
    interval.secs(elapsed=60.0)        # 2.0: a point at each progress line
    interval.secs(elapsed=86_400.0)    # 288.0

A day is about 1500 points, ten days about 2200.  Pure.
"""

from __future__ import annotations

import dataclasses

_DENSE_SECS = 300.0
_SPARSE_SECS = 10.0
_SHARE = 1 / 300
"""Of the length of the run so far: a curve keeps its shape at every scale."""


@dataclasses.dataclass(frozen=True)
class SummaryInterval:
    """Args: `least`: seconds between points at the beginning, and never less than that."""

    least: float

    def secs(self, elapsed: float) -> float:
        """Returns how far apart points are so many seconds after the beginning of the run."""
        return self.least if elapsed < _DENSE_SECS else max(self.least, _SPARSE_SECS, elapsed * _SHARE)
