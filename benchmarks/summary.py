"""Numbers of repeated runs, made short: medians with their range, ratios of medians, and whether losses agree.

    spread_of([3.0, 1.0, 2.0])            # Spread(median=2.0, low=1.0, high=3.0)
    disagreeing({"a": 1.0, "b": 1.02, "c": 2.0}, tolerance=0.1)        # ["c"]

Pure.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Spread:
    median: float
    low: float
    high: float

    def text(self) -> str:
        return f"{short(self.median)} ({short(self.low)} - {short(self.high)})"


def spread_of(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def ratio_of_medians(values: Sequence[float], reference: Sequence[float]) -> float | None:
    """None where one of them is missing."""
    if not values or not reference:
        return None
    return statistics.median(values) / statistics.median(reference)


def best_of(runs: Mapping[str, Sequence[float]], names: Sequence[str]) -> str | None:
    """Whichever of the names has the highest median; None where none has run."""
    measured = [name for name in names if runs.get(name)]
    return max(measured, key=lambda name: statistics.median(runs[name]), default=None)


def disagreeing(losses: Mapping[str, float], tolerance: float) -> list[str]:
    """Whose loss is further than `tolerance` (a share) from the median of all, or is no number."""
    finite = [loss for loss in losses.values() if math.isfinite(loss)]
    if not finite:
        return list(losses)
    middle = statistics.median(finite)
    return [name for name, loss in losses.items() if not abs(loss - middle) <= tolerance * abs(middle)]


def short(value: float) -> str:
    """Three digits that count: 12345 -> 12300 would hide nothing that was measured, but 12345 is easier to check."""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
