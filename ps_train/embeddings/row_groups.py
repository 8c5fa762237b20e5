"""Groups of an open vocabulary's rows: an id and its row always lie in the same group, and so on the same ps.

The hash of an id selects its group, and the id gets a row there.  A ps holds whole groups.  Groups are large, because
then a group's least used row is used about as little as the table's least used row.  A group has more rows than its
share of `capacity`, because hashing fills groups unevenly.  Its last row is never assigned and keeps its initial value.

The module is pure: no TensorFlow, no ps.
"""

from __future__ import annotations

import math

MAX_GROUPS = 251
"""Number of groups of a large table: many more than ps."""

_ROWS = 256
"""Least number of rows in a group, if the table has as many."""

_DEVIATIONS = 4
"""Spare rows of a group, in standard deviations of a Poisson count; about one group in 30 000 exceeds it."""


def group_count(capacity: int) -> int:
    """Returns the number of groups; 1 for a small table."""
    return max(1, min(MAX_GROUPS, capacity // _ROWS))


def rows_per_group(capacity: int) -> int:
    """Returns the number of rows in each group, including the one that is never assigned."""
    groups = group_count(capacity)
    share = -(-capacity // groups)
    return share + (math.ceil(_DEVIATIONS * math.sqrt(share)) if groups > 1 else 0) + 1
