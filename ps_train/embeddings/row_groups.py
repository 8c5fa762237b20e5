"""How the rows of an open vocabulary are grouped, so that an id is on the same ps as the row that it will get.

An id belongs to one heap by its hash, and a row is found for it there; a ps has whole heaps.  A heap is large, so that
the least used row of a heap is about as little used as that of the table, and has more rows than its share, so that
`capacity` ids have room although chance deals them unevenly.  Its last row is nobody's: it stays as it was initialised.

Pure: no TensorFlow, no ps.
"""

from __future__ import annotations

import math

MAX_GROUPS = 251
"""Heaps of a large table: many for any likely number of ps."""

_ROWS = 256
"""A heap has at least so many rows, if the table has."""

_DEVIATIONS = 4
"""The share of a heap varies like a count of chance events.  More than this above the mean: one heap in 30 000."""


def group_count(capacity: int) -> int:
    """How many heaps there are; one for a small table."""
    return max(1, min(MAX_GROUPS, capacity // _ROWS))


def rows_per_group(capacity: int) -> int:
    """Rows of each heap, with the one that is nobody's."""
    heaps = group_count(capacity)
    share = -(-capacity // heaps)
    return share + (math.ceil(_DEVIATIONS * math.sqrt(share)) if heaps > 1 else 0) + 1
