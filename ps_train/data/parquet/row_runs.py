"""The cut of row groups into runs of rows, for replicas and for shards.

runs = runs_of_share(rows_of_groups, DataShard(index=0, count=2))   # [RowRun(group=0, first=0, rows=100000), ...]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ps_train.data.data_shard import DataShard, equal_runs


class RowRun(NamedTuple):
    """Successive rows of one row group.

    Attributes:
      group: index of the row group among those of all files.
      first: index of the first row in its group.
      rows: number of rows, at least 1.
    """

    group: int
    first: int
    rows: int


def runs_of_share(rows: Sequence[int], shard: DataShard) -> list[RowRun]:
    """Returns a replica's rows; all replicas have equal numbers of them, give or take one.

    Args:
      rows: the number of rows of each row group, in the order of the data.
      shard: the replica.
    """
    return [RowRun(group, start, stop - start) for group, start, stop in equal_runs(rows, shard)]


def limited_runs(rows: Sequence[int], most: Sequence[int]) -> Iterator[RowRun]:
    """Yields all rows as runs of limited size; those of one group differ by one row at most.

    Args:
      rows: the number of rows of each row group.
      most: the number of rows of each row group that a run may have.
    """
    for group, (count, limit) in enumerate(zip(rows, most, strict=True)):
        parts = -(-count // max(1, limit))
        for part in range(parts):
            first = count * part // parts
            yield RowRun(group, first, count * (part + 1) // parts - first)
