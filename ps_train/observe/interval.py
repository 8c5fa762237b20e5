"""Interval between points in the event files: short at the beginning of a run, longer as the run grows.

    interval = SummaryInterval(min_secs=2.0)
    interval.secs(elapsed=60.0)        # 2.0: a point at each progress line
    interval.secs(elapsed=86_400.0)    # 288.0

A run of a day has about 1500 points, a run of ten days about 2200.  The module is pure.
"""

from __future__ import annotations

import dataclasses

_DENSE_SECS = 300.0
_SPARSE_SECS = 10.0
_SHARE = 1 / 300
"""Interval over elapsed time; a constant share keeps the shape of a curve at every scale."""


@dataclasses.dataclass(frozen=True)
class SummaryInterval:
    """The interval between points as a function of the elapsed time.

    Attributes:
      min_secs: seconds between points at the beginning; the interval is never shorter.
    """

    min_secs: float

    def secs(self, elapsed: float) -> float:
        """Returns the interval in seconds, `elapsed` seconds after the beginning of the run."""
        return self.min_secs if elapsed < _DENSE_SECS else max(self.min_secs, _SPARSE_SECS, elapsed * _SHARE)
