"""What ps_train wants to reach, as ratios of medians of one interleaved run.

for judged in judge(rates_of_workload, "small"):
    print(judged.text())
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from benchmarks.summary import best_of, ratio_of_medians

SINGLE = ("single-1x2", "single-2x1")


@dataclasses.dataclass(frozen=True)
class Target:
    """`ours` examples/s over the best of `against` shall be `at_least`."""

    workload: str
    ours: str
    against: tuple[str, ...]
    at_least: float


TARGETS = (
    Target("small", "ours-async", ("classic-async",), 4.0),
    Target("wide", "ours-async", ("classic-async",), 6.0),
    Target("small", "ours-async", ("pss-1",), 5.0),
    Target("small", "ours-async", ("pss-100",), 2.0),
    Target("large", "ours-async", ("classic-async",), 2.2),
    Target("small", "ours-async", SINGLE, 0.75),
    Target("small", "ours-async", ("bare",), 1 / 1.05),
    Target("lookup", "ours-async", ("classic-async",), 1.8),
    Target("lookup", "ours-async", SINGLE, 0.85),
    Target("lookup", "ours-async", ("pss-1",), 3.0),
    Target("lookup_small", "ours-async", ("classic-async",), 2.6),
    Target("lookup_small", "ours-async", SINGLE, 0.8),
    Target("lookup_small", "ours-async", ("pss-1",), 3.0),
    Target("small", "ours-sync", ("ddp",), 1.2),
    Target("wide", "ours-sync", ("ddp",), 1.5),
    Target("large", "ours-sync", ("ddp",), 1.0),
    Target("small", "ours-sync", ("classic-sync",), 3.0),
    Target("wide", "ours-sync", ("classic-sync",), 3.0),
    Target("large", "ours-sync", ("classic-sync",), 3.0),
)


@dataclasses.dataclass(frozen=True)
class Judged:
    target: Target
    against: str
    ratio: float

    def cells(self) -> list[str]:
        reached = "yes" if self.ratio >= self.target.at_least else "no"
        return [
            self.target.workload,
            self.target.ours,
            self.against,
            f"{self.ratio:.2f}",
            f"{self.target.at_least:.2f}",
            reached,
        ]


def judge(rates: Mapping[str, Sequence[float]], workload: str) -> list[Judged]:
    """Those targets of a workload whose contenders have run.  A contender with options counts for its name."""
    judged = []
    for target in (target for target in TARGETS if target.workload == workload):
        against = best_of(rates, target.against)
        for name in (name for name in rates if name.partition(":")[0] == target.ours):
            ratio = ratio_of_medians(rates[name], rates[against]) if against else None
            if ratio is not None and against is not None:
                judged.append(Judged(dataclasses.replace(target, ours=name), against, ratio))
    return judged
