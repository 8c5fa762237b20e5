"""The assignment policy of partitions: pure functions of the owners and the cursors that the ps hold.

    keep, take = shares(owners, open_partitions(progress, count, ends), owner=2, seats=seats)

Every replica that shares the partitions has a seat, and owns at most its share.  A replica with more gives the
rest back, and others take it.  So partitions move when replicas come and go, without a leader.

`owners` is int64 [partitions + seats]: 0 for a free one, otherwise one more than the index of a replica
(`shards/shard_policy.py`).  A cursor is one more than an offset; 0 is a partition that no replica has begun.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ps_train.data.shards.shard_policy import FREE

IntArray = np.ndarray[Any, Any]


def begun_partitions(progress: IntArray, count: int) -> list[int]:
    """Returns the first `count` partitions that have been begun on all ps; `progress` is int64 [ps, partitions]."""
    return [int(partition) for partition in np.flatnonzero(progress[:, :count].min(axis=0) > 0)]


def open_partitions(progress: IntArray, count: int, ends: Mapping[int, int]) -> list[int]:
    """Returns the begun partitions that may have rows which some ps has not used."""
    reached = progress.min(axis=0)
    return [one for one in begun_partitions(progress, count) if one not in ends or reached[one] - 1 < ends[one]]


def shares(owners: IntArray, partitions: Collection[int], owner: int, seats: IntArray) -> tuple[list[int], list[int]]:
    """Returns the partitions that a replica keeps, and those that it takes now.

    The shares of two replicas differ by one at most; those with a lower index have more.

    Args:
      owners: the owner of each partition.
      partitions: the partitions that have rows to come.
      owner: number of the replica.
      seats: the owners of the seats; the replica's own is counted in any case.
    """
    replicas = sorted({*map(int, seats[seats != FREE]), owner})
    least, more = divmod(len(partitions), len(replicas))
    share = least + (replicas.index(owner) < more)
    own = [one for one in partitions if owners[one] == owner]
    free = [one for one in partitions if owners[one] == FREE]
    return own[:share], free[: max(0, share - len(own))]
