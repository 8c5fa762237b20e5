"""Layouts of tables in checkpoints and exports."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.modeling.tables.row_order import positions_of
from ps_train.modeling.tables.table_layout import HASHED, ROWS, TableLayout, layouts_from

FIELDS = TableLayout(ROWS, (3, 2), by_field=True, has_defaults=True, in_blocks=False)


def test_each_field_has_its_rows_and_its_default_after_them() -> None:
    assert FIELDS.total == 7 and FIELDS.offsets.tolist() == [0, 4]
    assert TableLayout(HASHED, (3, 2), in_blocks=False).offsets.tolist() == [0, 3]
    assert TableLayout(ROWS, (5,), has_defaults=True).total == 6


def test_places_and_indices_are_each_others_inverse() -> None:
    assert FIELDS.indices_at(2, 3).tolist() == [2, 3, 4] and FIELDS.places_of(np.array([6, 0])).tolist() == [6, 0]
    layout = TableLayout(ROWS, (1000,))
    places = layout.places_of(np.arange(1000))
    np.testing.assert_array_equal(places, positions_of(np.arange(1000), 1000))
    assert sorted(places) == [*range(1000)]
    np.testing.assert_array_equal(layout.indices_at(0, 1000)[places], np.arange(1000))
    np.testing.assert_array_equal(layout.indices_at(300, 50), layout.indices_at(0, 1000)[300:350])


def test_layouts_are_read_and_other_texts_refused() -> None:
    text = '{"users": {"kind": "rows", "sizes": [3, 2], "by_field": true, "has_defaults": true, "in_blocks": false}}'
    assert layouts_from(text) == {"users": FIELDS} and layouts_from(b"{}") == {}
    for wrong in (
        "[]",
        '{"users": {}}',
        '{"users": {"sizes": 3}}',
        '{"users": {"kind": "rows", "sizes": [1], "x": 1}}',
        "{",
    ):
        with pytest.raises(ValueError):
            layouts_from(wrong)
