"""A part of the data: the examples of one replica under static sharding."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class DataShard:
    """The `index`-th of `count` parts."""

    index: int
    count: int


WHOLE = DataShard(0, 1)
