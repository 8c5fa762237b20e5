"""The checkpoint of a warm start: parts that are one variable, and the layouts of its tables."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.modeling.tables.table_layout import HASHED, OPEN, ROWS, TableLayout
from ps_train.modeling.tables.vocabulary_index import KEYS, UPDATE_COUNT, USED
from ps_train.saved.warm_start.source_checkpoint import SourceCheckpoint, open_source
from tests.support.saved.checkpoints import write_checkpoint


def source(tmp_path: pathlib.Path, **options: Any) -> SourceCheckpoint:
    values = options.pop("values")
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "a"), tensor_names=[*values], shape_and_slices=[""] * len(values),
        tensors=[tf.constant(value) for value in values.values()],
    )  # fmt: skip
    return SourceCheckpoint(str(tmp_path / "a"), **options)


ROWS_OF_W = np.arange(14, dtype=np.float32).reshape(7, 2)
PARTS = {
    "w/part_0": ROWS_OF_W[:3], "w/part_1": ROWS_OF_W[3:5], "w/part_2": ROWS_OF_W[5:],
    "w/part_0/Adam": ROWS_OF_W[:3], "w/part_1/Adam": ROWS_OF_W[3:],
}  # fmt: skip


def test_parts_are_one_variable_and_so_are_those_of_its_slot(tmp_path: pathlib.Path) -> None:
    found = source(tmp_path, values=PARTS)
    assert found.kinds == {"w": ([7, 2], tf.float32), "w/Adam": ([7, 2], tf.float32)}
    np.testing.assert_array_equal(found.read("w"), ROWS_OF_W)
    np.testing.assert_array_equal(found.read("w/Adam", 1, 5), ROWS_OF_W[1:6])
    for begin in range(7):
        for count in range(1, 8 - begin):
            np.testing.assert_array_equal(found.read("w", begin, count), ROWS_OF_W[begin : begin + count])


@pytest.mark.parametrize(
    "values",
    [
        {"w/part_0": ROWS_OF_W, "w/part_2": ROWS_OF_W},  # one is missing
        {"w/part_0": ROWS_OF_W, "w/part_1": ROWS_OF_W[:, :1]},  # other columns
        {"w/part_0": ROWS_OF_W, "w/part_1": ROWS_OF_W.astype(np.float64)},
        {"w/part_0": ROWS_OF_W, "w": ROWS_OF_W},
        {"w/part_0": np.float32(1)},
    ],
)
def test_other_parts_stay_variables_of_their_own(tmp_path: pathlib.Path, values: dict[str, Any]) -> None:
    assert sorted(source(tmp_path, values=values).kinds) == sorted(values)


def test_the_global_step_may_be_missing(tmp_path: pathlib.Path) -> None:
    assert source(tmp_path, values={"global_step": np.int64(7)}).global_step == 7
    assert source(tmp_path, values={"w": ROWS_OF_W}).global_step is None


LIKE = TableLayout(ROWS, (7,))
EARLIER = {"ps_train/examples": np.int64(3)}


def test_a_vocabulary_has_the_layout_of_its_rows(tmp_path: pathlib.Path) -> None:
    parts = {f"w/{part}": np.zeros(1, np.int64) for part in (KEYS, USED, UPDATE_COUNT)}
    found = source(tmp_path, values={"w": ROWS_OF_W, **parts})
    assert found.layout_of("w", LIKE) == TableLayout(OPEN, (7,), in_blocks=False)


def test_a_described_layout_counts_and_another_variable_has_rows_in_order(tmp_path: pathlib.Path) -> None:
    described = TableLayout(HASHED, (7,))
    found = source(tmp_path, values={"w": ROWS_OF_W, "v": ROWS_OF_W}, layouts={"w": described})
    assert found.layout_of("w", LIKE) == described
    assert found.layout_of("v", LIKE) == TableLayout(ROWS, (7,), in_blocks=False)


@pytest.mark.parametrize(
    ("earlier", "like", "layout"),
    [
        (True, TableLayout(HASHED, (7,), in_blocks=False), TableLayout(HASHED, (7,))),  # as large: the same layout
        (True, TableLayout(OPEN, (7,)), TableLayout(ROWS, (7,))),
        (True, TableLayout(HASHED, (9,)), TableLayout(HASHED, (7,))),
        (True, TableLayout(ROWS, (4, 4), by_field=True), None),
        (False, TableLayout(HASHED, (7,)), None),
        (False, TableLayout(ROWS, (9,)), TableLayout(ROWS, (7,), in_blocks=False)),
        (
            False,
            TableLayout(ROWS, (4, 3), by_field=True, has_defaults=True),
            TableLayout(ROWS, (4, 3), by_field=True, in_blocks=False),
        ),
        (False, TableLayout(ROWS, (4, 4), by_field=True), None),
    ],
)
def test_a_layout_that_is_not_described_is_taken_only_if_it_is_sure(
    tmp_path: pathlib.Path, earlier: bool, like: TableLayout, layout: TableLayout | None
) -> None:
    found = source(tmp_path, values={"w": ROWS_OF_W, **(EARLIER if earlier else {})})
    assert found.layout_of("w", like) == layout


def test_a_checkpoint_is_opened_by_its_directory_and_shown_by_its_path(tmp_path: pathlib.Path) -> None:
    write_checkpoint(tmp_path, 5, run="")
    assert open_source(str(tmp_path), "warm_start=x").shown == f"{tmp_path}/model.ckpt-5"
    assert open_source(f"{tmp_path}/model.ckpt-5", "warm_start=x").global_step == 5
    (tmp_path / "model.ckpt-5.data-00000-of-00001").write_bytes(b"")
    for path in (f"{tmp_path}/model.ckpt-5", f"{tmp_path}/none"):
        with pytest.raises(ConfigError, match=r"^warm_start=x: .*; give a checkpoint, its directory or "):
            open_source(path, "warm_start=x")
