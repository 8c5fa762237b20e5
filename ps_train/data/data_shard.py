"""The part of the data that one replica reads under static sharding."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence


@dataclasses.dataclass(frozen=True)
class DataShard:
    """One of several disjoint parts of the data.

    Attributes:
      index: this part, 0 to `count` - 1.
      count: number of parts.
    """

    index: int
    count: int


WHOLE = DataShard(0, 1)


def equal_runs(sizes: Sequence[int], shard: DataShard) -> Iterator[tuple[int, int, int]]:
    """Yields a shard's part of sequences that are joined end to end: (sequence, start, stop), none of them empty.

    The parts of all shards differ in size by one at most.

    Args:
      sizes: the sizes of the sequences, such as bytes or records of files.
      shard: its index, and how many there are.
    """
    total, before = sum(sizes), 0
    first, last = (total * index // shard.count for index in (shard.index, shard.index + 1))
    for number, size in enumerate(sizes):
        start, stop = max(first - before, 0), min(last - before, size)
        if start < stop:
            yield number, start, stop
        before += size
