"""A gate between the rows that are read ahead and those that become batches; by itself it is open.

    class Even(RowGate):
        def stamp(self, partition, row):
            return row.offset

        def is_shut(self, stamp):
            return stamp % 2 == 1           # the rows of a partition wait behind such a row

The replica whose rows they are tells the gate of the state of all partitions, whenever it has read that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ps_train.data.unbounded.source import Row

NO_STAMP = -math.inf


class RowGate:
    """A gate that is open.

    Attributes:
      asks_for_ends: True if it matters that a partition is read to its end, for which the source is asked.
    """

    asks_for_ends = False

    def stamp(self, partition: int, row: Row) -> float | None:
        """Returns by what the gate knows a row with a value; None if the row is left out."""
        return NO_STAMP

    def is_shut(self, stamp: float) -> bool:
        """Returns True if no batch may have a row with this stamp now."""
        return False

    def passed(self, partition: int, begin: int, stamps: Sequence[float]) -> None:
        """Some rows are in a batch now, which begins at an offset."""

    def exchanged(self, session: Any, partitions: Any) -> None:
        """The state of the partitions was read in a session by their `PartitionClient`."""

    def holds(self, partition: int) -> bool:
        """Returns True if a partition makes no batches, whatever its rows are."""
        return False

    def measured(self) -> dict[str, Any]:
        """Returns measurements for the telemetry of the worker."""
        return {}


OPEN = RowGate()
