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

from ps_train.sharding.layout import EPOCH, Assignment

FREE = 0
Numbers = np.ndarray[Any, Any]


def owner_of(replica: int) -> int:
    return replica + 1


def choose_shards(holders: Numbers, progress: Numbers, epochs: int, wanted: int) -> list[Assignment]:
    """Of the shards that nobody has those that are furthest behind, in their order."""
    free = free_shards(holders, progress, epochs)
    passes = progress.min(axis=0) // EPOCH
    first = sorted(free, key=lambda shard: (passes[shard], shard))[:wanted]
    return [assignment_of(shard, progress) for shard in first]


def free_shards(holders: Numbers, progress: Numbers, epochs: int) -> list[int]:
    """The shards that can be handed out now."""
    free = holders == FREE
    if epochs:
        free &= progress.min(axis=0) < epochs * EPOCH
    return [int(shard) for shard in np.flatnonzero(free)]


def assignment_of(shard: int, progress: Numbers) -> Assignment:
    """What is to be read next of a shard: up to where another ps has come already, so that no batch is half new."""
    reached = np.unique(progress[:, shard])
    end = (int(reached[0]) // EPOCH + 1) * EPOCH
    return Assignment(shard, int(reached[0]), min(end, int(reached[1])) if len(reached) > 1 else end)


def is_done(assignment: Assignment, epochs: int) -> bool:
    """Whether it is of no pass that is to be made."""
    return bool(epochs) and assignment.epoch >= epochs


def is_finished(progress: Numbers, epochs: int) -> bool:
    """Whether every example has been used in every pass."""
    return bool(epochs) and bool((progress >= epochs * EPOCH).all())


def fair_share(free: int, sharers: int) -> int:
    """How many shards one may take at once: near the end few, so that all end together."""
    return max(1, free // (2 * sharers))
