"""Who is to get which shard next.  Pure functions of what stands on the ps.

    chosen = choose(holders, progress, epochs=3, wanted=2)      # up to two assignments
    is_over(progress, epochs=3)

`holders` is int64 [shards]: 0, or one more than the index of the replica that has the shard.  `progress` is int64
[ps, shards]: the cursor (see `layout.py`) up to which the examples of a shard have been used on each ps.  They differ
where a worker died in the middle of a push, or a ps was restored alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ps_train.data.layout import PASS, Assignment

FREE = 0
Numbers = np.ndarray[Any, Any]


def holder_of(replica: int) -> int:
    return replica + 1


def choose(holders: Numbers, progress: Numbers, epochs: int, wanted: int) -> list[Assignment]:
    """Of the shards that nobody has those that are furthest behind, in their order."""
    free = candidates(holders, progress, epochs)
    passes = progress.min(axis=0) // PASS
    first = sorted(free, key=lambda shard: (passes[shard], shard))[:wanted]
    return [assignment_of(shard, progress) for shard in first]


def candidates(holders: Numbers, progress: Numbers, epochs: int) -> list[int]:
    """The shards that can be handed out now."""
    free = holders == FREE
    if epochs:
        free &= progress.min(axis=0) < epochs * PASS
    return [int(shard) for shard in np.flatnonzero(free)]


def assignment_of(shard: int, progress: Numbers) -> Assignment:
    """What is to be read next of a shard: up to where another ps has come already, so that no batch is half new."""
    reached = np.unique(progress[:, shard])
    end = (int(reached[0]) // PASS + 1) * PASS
    return Assignment(shard, int(reached[0]), min(end, int(reached[1])) if len(reached) > 1 else end)


def is_done(assignment: Assignment, epochs: int) -> bool:
    """Whether it is of no pass that is to be made."""
    return bool(epochs) and assignment.number_of_pass >= epochs


def is_over(progress: Numbers, epochs: int) -> bool:
    """Whether every example has been used in every pass."""
    return bool(epochs) and bool((progress >= epochs * PASS).all())


def fair_part(free: int, sharers: int) -> int:
    """How many shards one may take at once: near the end few, so that all end together."""
    return max(1, free // (2 * sharers))
