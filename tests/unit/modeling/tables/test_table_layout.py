"""The layout of a table's rows, and its text in checkpoints and exports."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from ps_train.modeling.tables.row_order import positions_of
from ps_train.modeling.tables.table import Table
from ps_train.modeling.tables.table_layout import HASHED, OPEN, ROWS, TableLayout, layout_of, layouts_from, layouts_text


class InOrder(Table):
    has_natural_order = True


LAYOUTS = [
    (Table("t", 2, rows=5), TableLayout(ROWS, (5,)), [0], 5),
    (Table("t", 2, rows=[3, 4, 2]), TableLayout(ROWS, (3, 4, 2), by_field=True), [0, 3, 7], 9),
    (
        Table("t", 2, rows=[3, 4], oov="default"),
        TableLayout(ROWS, (3, 4), by_field=True, has_defaults=True),
        [0, 4],
        9,
    ),
    (Table("t", 2, rows=3, oov="default"), TableLayout(ROWS, (3,), has_defaults=True), [0], 4),
    (Table("t", 2, hash_buckets=[6, 7]), TableLayout(HASHED, (6, 7), by_field=True), [0, 6], 13),
    (Table("t", 2, capacity=10), TableLayout(OPEN, (11,), in_blocks=False), [0], 11),
    (InOrder("t", 2, rows=5), TableLayout(ROWS, (5,), in_blocks=False), [0], 5),
]


@pytest.mark.parametrize(("table", "layout", "offsets", "total"), LAYOUTS)
def test_a_layout_has_the_rows_of_its_table(table: Table, layout: TableLayout, offsets: list[int], total: int) -> None:
    found = layout_of(table)
    assert found == layout
    assert found.offsets.tolist() == offsets and found.offsets.dtype == np.int64
    assert found.total == total == table.total


@pytest.mark.parametrize("in_blocks", [True, False])
def test_places_and_indices_are_the_inverse_of_each_other(in_blocks: bool) -> None:
    layout = TableLayout(ROWS, (600, 399), has_defaults=True, in_blocks=in_blocks)
    indices = layout.indices_at(0, layout.total)
    assert sorted(indices) == [*range(1001)]
    np.testing.assert_array_equal(layout.places_of(indices), np.arange(1001))
    np.testing.assert_array_equal(layout.indices_at(17, 40), indices[17:57])
    expected = positions_of(np.arange(1001), 1001) if in_blocks else np.arange(1001)
    np.testing.assert_array_equal(layout.places_of(np.arange(1001)), expected)


def test_a_text_has_the_layouts_by_name_and_is_read_as_it_was_written() -> None:
    tables = {f"t{number}": table for number, (table, *_) in reversed([*enumerate(LAYOUTS)])}
    text = layouts_text(tables)
    assert list(json.loads(text)) == sorted(tables)
    assert layouts_from(text) == layouts_from(text.encode()) == {name: layout_of(one) for name, one in tables.items()}
    assert all(hash(layout) is not None for layout in layouts_from(text).values()), "the sizes are a tuple again"


def test_fields_that_a_text_of_an_older_version_lacks_have_their_usual_value() -> None:
    assert layouts_from('{"t": {"kind": "rows", "sizes": [3]}}') == {"t": TableLayout(ROWS, (3,))}


GOOD = dataclasses.asdict(TableLayout(ROWS, (3,)))


@pytest.mark.parametrize(
    "content",
    [[GOOD], {"t": [1]}, {"t": {"kind": "rows"}}, {"t": {**GOOD, "sizes": 3}}, {"t": {**GOOD, "more": 1}}, {"t": None}],
)
def test_another_text_is_refused(content: object) -> None:
    with pytest.raises(ValueError, match="these are not layouts of tables"):
        layouts_from(json.dumps(content))
    with pytest.raises(ValueError):
        layouts_from("{")
