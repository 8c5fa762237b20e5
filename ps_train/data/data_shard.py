"""The part of the data that one replica reads under static sharding."""

from __future__ import annotations

import dataclasses


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
