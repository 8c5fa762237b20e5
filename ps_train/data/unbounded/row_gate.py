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
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ps_train.data.unbounded.source import Row

NO_STAMP = -math.inf


class Standing(NamedTuple):
    """A partition of this replica without a batch under way.

    Attributes:
      cursor: where it stands on every ps.
      stamp: of the row there; None if it is not there, or has none.
      empty_secs: seconds since it was read to its end; 0 if there are rows.
    """

    cursor: int
    stamp: float | None
    empty_secs: float


class Partitions(Protocol):
    """The partitions, as a replica has last read their state."""

    @property
    def progress(self) -> np.ndarray[Any, Any]:
        """The cursors, int64 [ps, partitions]."""

    def open_partitions(self) -> list[int] | None:
        """Returns the partitions that may have rows to come; None if some are not begun yet."""

    def standing(self) -> Mapping[int, Standing]:
        """Returns the partitions of this replica without a batch under way."""


class RowGate:
    """A gate that is open.

    Attributes:
      asks_for_ends: True if `Standing.empty_secs` is needed, for which the source is asked.
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

    def exchanged(self, session: Any, partitions: Partitions) -> None:
        """The state of the partitions was read in a session."""

    def holds(self, partition: int) -> bool:
        """Returns True if a partition makes no batches, whatever its rows are."""
        return False

    def measured(self) -> dict[str, Any]:
        """Returns measurements for the telemetry of the worker."""
        return {}


OPEN = RowGate()
