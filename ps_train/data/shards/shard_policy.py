"""The assignment policy of shards: pure functions of the owners and the progress that the ps hold.

    chosen = choose_shards(owners, progress, epochs=3, max_shards=2)    # up to two assignments
    is_finished(progress, epochs=3)

`owners` is int64 [shards]: 0 for a free shard, otherwise one more than the index of the replica that owns it.
`progress` is int64 [ps, shards]: the cursor (see `layout.py`) up to which each ps has used a shard.  The cursors of
the ps differ if a worker died in the middle of a push, or if one ps was restored alone.  Zero `epochs` mean no end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ps_train.data.shards.shard_layout import EPOCH, Assignment

FREE = 0
IntArray = np.ndarray[Any, Any]


def owner_of(replica: int) -> int:
    """Returns the number that stands for a replica in `owners`."""
    return replica + 1


def choose_shards(owners: IntArray, progress: IntArray, epochs: int, max_shards: int) -> list[Assignment]:
    """Returns assignments of up to `max_shards` free shards: those in the earliest epoch first, then by index."""
    free = free_shards(owners, progress, epochs)
    epochs_done = progress.min(axis=0) // EPOCH
    first = sorted(free, key=lambda shard: (epochs_done[shard], shard))[:max_shards]
    return [assignment_of(shard, progress) for shard in first]


def free_shards(owners: IntArray, progress: IntArray, epochs: int) -> list[int]:
    """Returns the shards that can be assigned now: free, and with an epoch left."""
    free = owners == FREE
    if epochs:
        free &= progress.min(axis=0) < epochs * EPOCH
    return [int(shard) for shard in np.flatnonzero(free)]


def assignment_of(shard: int, progress: IntArray) -> Assignment:
    """Returns the next part of a shard to read.

    It ends at the next cursor of another ps.  A batch is therefore new to a ps as a whole or not at all.
    """
    reached = np.unique(progress[:, shard])
    end = (int(reached[0]) // EPOCH + 1) * EPOCH
    return Assignment(shard, int(reached[0]), min(end, int(reached[1])) if len(reached) > 1 else end)


def is_done(assignment: Assignment, epochs: int) -> bool:
    """Returns whether an assignment lies after the last epoch."""
    return bool(epochs) and assignment.epoch >= epochs


def is_finished(progress: IntArray, epochs: int) -> bool:
    """Returns whether every ps has used every example in every epoch."""
    return bool(epochs) and bool((progress >= epochs * EPOCH).all())


def fair_share(free: int, replicas: int) -> int:
    """Returns how many of `free` shards one replica may take at once.

    The number is small near the end, because all replicas should end together.
    """
    return max(1, free // (2 * replicas))
