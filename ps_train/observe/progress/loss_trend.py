"""Rise of the loss above the lowest that a run has had, from the losses of single batches of the chief.

    trend = LossTrend()
    trend.add(step=100, loss=0.7)
    trend.rise()                # 0.4: the loss is now 40 % above its lowest; None while too little is known

Single batches may be hard, so 20 samples are compared with 20, and only a difference that chance does not make counts
as a rise (Mann and Whitney 1947).  Samples stand for longer parts of the run as the run becomes longer.
"""

from __future__ import annotations

import bisect
import itertools
import math
import statistics
from collections.abc import Sequence

_BLOCK, _MOST_BLOCKS = 10, 20
"""Samples of a block, and number of blocks from which two become one."""

_SIGNIFICANT = 4.0
"""Standard deviations by which one set of samples must rank above the other: the lowest of many sets is compared."""

_SMALL = 0.05
"""Part of the first loss below which a loss counts as no smaller: a rise from almost nothing to little is none."""

_MOST = 1e6


class LossTrend:
    """The losses of a run so far."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._blocks: list[list[float]] = [[]]
        self._every, self._seen, self._step, self._first = 1, 0, -1, 0.0

    def add(self, step: int, loss: float) -> None:
        """Takes in the loss of a step; an earlier step than the last one begins anew, as a recovery does."""
        if math.isnan(loss) or step == self._step:
            return
        if step < self._step:
            self._begin()
        self._step = step
        self._first = self._first or abs(loss)
        self._seen += 1
        if self._seen % self._every:
            return
        self._blocks[-1].append(loss)
        if len(self._blocks[-1]) == _BLOCK:
            if len(self._blocks) == _MOST_BLOCKS:
                pairs = zip(self._blocks[::2], self._blocks[1::2], strict=True)
                self._blocks, self._every = [[*left, *right][::2] for left, right in pairs], 2 * self._every
            self._blocks.append([])

    def rise(self) -> float | None:
        """Returns the rise over the lowest loss, as a part of the latter, 0 if it may be chance.

        Returns None before there are four blocks to compare.
        """
        full = self._blocks[:-1]
        if len(full) < 4:
            return None
        pairs = [[*left, *right] for left, right in itertools.pairwise(full)]
        newest, lowest = pairs[-1], min(pairs[:-2], key=statistics.median)
        if _rank_difference(newest, lowest) < _SIGNIFICANT:
            return 0.0
        low = statistics.median(lowest)
        scale = max(abs(low), _SMALL * self._first, 1e-12)
        return min(_MOST, (statistics.median(newest) - low) / scale)


def _rank_difference(newer: Sequence[float], older: Sequence[float]) -> float:
    """Returns by how many standard deviations the newer samples rank above the older ones, of equal distributions."""
    ordered, count = sorted(older), len(newer) * len(older)
    above = sum((bisect.bisect_left(ordered, one) + bisect.bisect_right(ordered, one)) / 2 for one in newer)
    return (above - count / 2) / math.sqrt(count * (len(newer) + len(older) + 1) / 12)
