"""Groups of rows of an open vocabulary: how many there are, their size, and their place on the ps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.variables.plan import VariableSpec, make_plan
from ps_train.modeling.tables.id_encoding import encode_ids, group_of
from ps_train.modeling.tables.row_order import group_count, rows_per_group
from ps_train.modeling.tables.table import Table
from tests.support.graphs.lookups import evaluated


def table(**declared: Any) -> Table:
    return Table("users", **{"dimension": 4, "capacity": 100, **declared})


@pytest.mark.parametrize("capacity", [1, 511, 512, 1000, 10_000, 100_000])
@pytest.mark.parametrize("kind", ["run", "strings"])
def test_as_many_ids_as_the_capacity_have_room_in_their_groups(capacity: int, kind: str) -> None:
    ids: Any = np.arange(capacity) - capacity // 3
    ids = ids if kind == "run" else np.array([f"user-{i}" for i in ids])
    groups = evaluated(lambda: group_of(encode_ids(table(), tf.constant(ids)), group_count(capacity)))
    counts = np.bincount(groups, minlength=group_count(capacity))
    assert len(counts) == group_count(capacity) and counts.max() <= rows_per_group(capacity) - 1, counts


def test_a_table_has_few_more_rows_than_its_capacity() -> None:
    for capacity, allowed in ((1, 2), (511, 1.01), (10_000, 1.3), (1_000_000, 1.07), (10_000_000, 1.03)):
        found = table(capacity=capacity)
        assert found.total == found.groups * found.rows_per_group
        assert capacity < found.total <= max(capacity * allowed, capacity + 1), (capacity, found.total)


def test_groups_stay_whole_on_their_ps() -> None:
    declared = table(capacity=10_000)
    shape = (declared.total, 4)
    plan = make_plan([VariableSpec("users", shape, "float32", 4, spread=True, grain=declared.rows_per_group)], 3)
    sizes = [piece.shape[0] / declared.rows_per_group for piece in plan.slices_of("users")]
    assert sizes == [13, 13, 13] and plan.slices_of("users")[2].begin == 26 * declared.rows_per_group
