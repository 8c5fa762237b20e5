"""The layout of a table's rows in its variable, as checkpoints and exports describe it for a later training.

layout = layout_of(table)
text = layouts_text({"users": layout})          # JSON
layouts_from(text)["users"].total
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ps_train.base.untrusted import parse_json
from ps_train.modeling.tables.row_order import numbers_at, positions_of
from ps_train.modeling.tables.table import Table

LAYOUTS_FILE = "assets.extra/tables.json"
"""File of a SavedModel with the layouts of its tables."""

ROWS, HASHED, OPEN = "rows", "hash_buckets", "capacity"


@dataclasses.dataclass(frozen=True)
class TableLayout:
    """The layout of a table's rows.

    Attributes:
      kind: ROWS, HASHED or OPEN.
      sizes: number of rows of each field.
      by_field: True if every column of ids has rows of its own.
      has_defaults: True if each field has a default row after its other rows.
      in_blocks: True if the rows have the order of `row_order.py`; else row i is that of index i.
    """

    kind: str
    sizes: tuple[int, ...]
    by_field: bool = False
    has_defaults: bool = False
    in_blocks: bool = True

    @property
    def offsets(self) -> np.ndarray[Any, Any]:
        """Index of the first row of each field, int64 [fields]."""
        sizes = np.array(self.sizes, np.int64) + self.has_defaults
        return np.cumsum(sizes) - sizes

    @property
    def total(self) -> int:
        """Number of rows."""
        return sum(self.sizes) + len(self.sizes) * self.has_defaults

    def indices_at(self, begin: int, count: int) -> np.ndarray[Any, Any]:
        """Returns the indices of the rows at the places `begin` to `begin + count`, int64 [count]."""
        places = np.arange(begin, begin + count, dtype=np.int64)
        return numbers_at(places, self.total) if self.in_blocks else places

    def places_of(self, indices: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Returns the places of rows by their indices, int64 [n]."""
        return positions_of(indices, self.total) if self.in_blocks else indices


def layout_of(table: Table) -> TableLayout:
    """Returns the layout of a table."""
    kind = OPEN if table.is_open else HASHED if table.hashed else ROWS
    in_blocks = not (table.is_open or table.has_natural_order)
    return TableLayout(kind, table.sizes, table.by_field, table.total > sum(table.sizes), in_blocks)


def layouts_text(tables: Mapping[str, Table]) -> str:
    """Returns the layouts of tables by the names of their variables, as JSON."""
    return json.dumps({name: dataclasses.asdict(layout_of(table)) for name, table in sorted(tables.items())})


def layouts_from(text: str | bytes) -> dict[str, TableLayout]:
    """Returns what `layouts_text` has written.

    Raises:
      ValueError: the text is something else.
    """
    try:
        return {name: TableLayout(**{**one, "sizes": tuple(one["sizes"])}) for name, one in parse_json(text).items()}
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"these are not layouts of tables ({error})") from None
