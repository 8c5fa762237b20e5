"""The policy of cuts by event time: pure functions of the cut and the marks that ps 0 holds.

    reached_all(marks, progress, partitions, next_cut=1_800_000_000_000)     # event times of the rows there, or None

Every partition stops before its first row of the cut's time or a later one, and is marked.  When all are marked, the
checkpoint is taken; then the next cut is chosen.  A partition without new rows counts as having reached the cut some
time after another one has really reached it.

`marks` is int64 [partitions, 2]: a cursor, and the event time of the row there, or what `idle_mark` returns.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

IntArray = np.ndarray[Any, Any]


def idle_mark(next_cut: int) -> int:
    """Returns the time of a mark of a partition without rows, which counts as having reached a cut."""
    return -1 - next_cut


def reached(marks: IntArray, progress: IntArray, partition: int, next_cut: int) -> int | None:
    """Returns the event time of the row at which a partition stands, if it has reached a cut; else None.

    A mark counts only if the partition stands at its cursor on every ps.

    Args:
      marks: see above.
      progress: int64 [ps, partitions], the cursors.
      partition: number of the partition, from 0.
      next_cut: event time of the cut; 0 while none is chosen, where every mark counts.

    Returns:
      The event time; below 0 for a partition without a row.
    """
    cursor, time = (int(value) for value in marks[partition])
    is_there = cursor > 0 and bool((progress[:, partition] == cursor).all())
    return time if is_there and (time == idle_mark(next_cut) or (time > 0 and time >= next_cut)) else None


def has_any_reached(marks: IntArray, progress: IntArray, partitions: Collection[int], next_cut: int) -> bool:
    """Returns True if a partition has really reached a cut: by a row."""
    return any((reached(marks, progress, one, next_cut) or 0) > 0 for one in partitions)


def reached_all(marks: IntArray, progress: IntArray, partitions: Collection[int], next_cut: int) -> list[int] | None:
    """Returns the event times of the rows at which the partitions stand, if all have reached a cut, one by a row."""
    found = [reached(marks, progress, one, next_cut) for one in partitions]
    times = [time for time in found if time is not None]
    rows = [time for time in times if time > 0]
    return rows if rows and len(times) == len(found) else None
