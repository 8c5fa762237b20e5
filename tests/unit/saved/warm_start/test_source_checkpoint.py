"""The source of a warm start: joined parts, slices across them, and the layouts of its tables."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from ps_train.base.errors import ConfigError
from ps_train.engine.run_directory.checkpoint_contents import LAYOUTS_KEY
from ps_train.modeling.tables.table_layout import HASHED, OPEN, ROWS, TableLayout
from ps_train.modeling.tables.vocabulary_index import KEYS, UPDATE_COUNT, USED
from ps_train.saved.values import Writer
from ps_train.saved.warm_start.source_checkpoint import SourceCheckpoint, open_source
from tests.support.saved.exported_models import write_table_export


def rows(first: int, count: int) -> np.ndarray:
    return np.arange(first * 2, (first + count) * 2, dtype=np.float32).reshape(count, 2)


def written(path: pathlib.Path, **values: Any) -> str:
    """Writes a checkpoint; `__` in a name is a slash."""
    writer = Writer(str(path))
    for name, value in values.items():
        writer.add(name.replace("__", "/"), np.asarray(value))
    writer.close()
    return str(path)


def test_parts_of_a_variable_and_of_its_slot_are_one(tmp_path: pathlib.Path) -> None:
    path = written(
        tmp_path / "c", w__part_0=rows(0, 3), w__part_1=rows(3, 2), w__part_2=rows(5, 4),
        w__part_0__Adam=-rows(0, 3), w__part_1__Adam=-rows(3, 6), b=[7],
    )  # fmt: skip
    source = SourceCheckpoint(path)
    assert {name: kind[0] for name, kind in source.kinds.items()} == {"w": [9, 2], "w/Adam": [9, 2], "b": [1]}
    assert np.array_equal(source.read("w"), rows(0, 9)) and np.array_equal(source.read("w/Adam"), -rows(0, 9))
    for begin in range(9):
        for count in range(1, 10 - begin):
            assert np.array_equal(source.read("w", begin, count), rows(begin, count)), (begin, count)
    assert np.array_equal(source.read("w/part_1", 1, 1), rows(4, 1))


@pytest.mark.parametrize(
    "values",
    [
        {"w__part_0": rows(0, 3), "w__part_2": rows(3, 2)},
        {"w__part_1": rows(0, 3), "w__part_2": rows(3, 2)},
        {"w__part_0": rows(0, 3), "w__part_1": np.zeros([2, 3], np.float32)},
        {"w__part_0": rows(0, 3), "w__part_1": rows(3, 2).astype(np.float64)},
        {"w__part_0": 1.0, "w__part_1": 2.0},
        {"w__part_0": rows(0, 3), "w__part_1": rows(3, 2), "w": rows(0, 5)},
    ],
    ids=["gap", "no first", "shapes", "dtypes", "scalars", "whole"],
)
def test_what_cannot_be_parts_of_one_variable_keeps_its_names(tmp_path: pathlib.Path, values: dict[str, Any]) -> None:
    source = SourceCheckpoint(written(tmp_path / "c", **values))
    assert source.kinds.keys() == {name.replace("__", "/") for name in values}


def test_a_described_table_has_the_layout_of_its_description(tmp_path: pathlib.Path) -> None:
    text = json.dumps({"t": {"kind": HASHED, "sizes": [3, 2], "by_field": True}})
    values = {LAYOUTS_KEY: np.array(text.encode(), object), "t": rows(0, 5), "other": rows(0, 4)}
    source, like = SourceCheckpoint(written(tmp_path / "c", **values)), TableLayout(ROWS, (9,))
    assert source.layout_of("t", like) == TableLayout(HASHED, (3, 2), by_field=True)
    assert source.layout_of("other", like) == TableLayout(ROWS, (4,), in_blocks=False)


def test_an_open_vocabulary_is_known_by_its_parts(tmp_path: pathlib.Path) -> None:
    parts = {f"t/{KEYS}": np.zeros([6, 1], np.int64), f"t/{USED}": np.zeros([6, 3], np.int64)}
    clock = {f"t/{UPDATE_COUNT}": np.zeros([1], np.int64)}
    source = SourceCheckpoint(written(tmp_path / "a", t=rows(0, 6), **parts, **clock))
    assert source.layout_of("t", TableLayout(ROWS, (6,))) == TableLayout(OPEN, (6,), in_blocks=False)
    source = SourceCheckpoint(written(tmp_path / "b", t=rows(0, 6), **parts))
    assert source.layout_of("t", TableLayout(ROWS, (6,))) == TableLayout(ROWS, (6,), in_blocks=False)


FIELDS = TableLayout(ROWS, (4, 2), by_field=True)


@pytest.mark.parametrize(
    ("is_old", "like", "found"),
    [
        (False, TableLayout(ROWS, (9,)), TableLayout(ROWS, (6,), in_blocks=False)),
        (False, TableLayout(OPEN, (9,), in_blocks=False), TableLayout(ROWS, (6,), in_blocks=False)),
        (False, TableLayout(HASHED, (6,)), None),
        (False, FIELDS, TableLayout(ROWS, (4, 2), by_field=True, in_blocks=False)),
        (False, TableLayout(ROWS, (4, 2), True, has_defaults=True), TableLayout(ROWS, (4, 2), True, in_blocks=False)),
        (False, TableLayout(ROWS, (4, 3), by_field=True), None),
        (True, TableLayout(HASHED, (6,), in_blocks=False), TableLayout(HASHED, (6,))),
        (True, TableLayout(HASHED, (9,)), TableLayout(HASHED, (6,))),
        (True, TableLayout(OPEN, (6,), in_blocks=False), TableLayout(ROWS, (6,))),
        (True, FIELDS, FIELDS),
        (True, TableLayout(ROWS, (4, 3), by_field=True), None),
        (True, TableLayout(ROWS, (9,), has_defaults=True), None),
        (True, TableLayout(ROWS, (5,), has_defaults=True), TableLayout(ROWS, (5,), has_defaults=True)),
    ],
)
def test_without_a_description_the_layout_follows_from_the_new_table_or_is_not_known(
    tmp_path: pathlib.Path, is_old: bool, like: TableLayout, found: TableLayout | None
) -> None:
    values = {"ps_train__examples": 0.0} if is_old else {}
    source = SourceCheckpoint(written(tmp_path / "c", t=rows(0, 6), **values))
    assert source.layout_of("t", like) == found


def test_the_global_step_is_that_of_the_checkpoint_or_none(tmp_path: pathlib.Path) -> None:
    assert SourceCheckpoint(written(tmp_path / "a", global_step=np.int64(7))).global_step == 7
    assert SourceCheckpoint(written(tmp_path / "b", w=1.0)).global_step is None


def test_a_source_is_shown_as_it_was_given(tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "model.ckpt-3", w=1.0)
    assert open_source(path, "f").shown == path and SourceCheckpoint(path).shown == path
    assert open_source(str(tmp_path), "f").shown == path, "the checkpoint of a directory"
    export = write_table_export(tmp_path / "export", rows(0, 5), 2.0)
    assert open_source(export, "f").shown == export
    layouts = tmp_path / "export" / "assets.extra" / "tables.json"
    layouts.parent.mkdir()
    layouts.write_text(json.dumps({"table": {"kind": HASHED, "sizes": [5]}}))
    found = open_source(export, "f")
    assert found.layout_of("table", TableLayout(ROWS, (5,))) == TableLayout(HASHED, (5,))
    layouts.write_text("[]")
    with pytest.raises(ConfigError, match=r"^f: these are not layouts of tables .*; give a checkpoint"):
        open_source(export, "f")


def test_what_cannot_be_opened_is_told_with_the_flag(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r"^warm_start=x: .*neither a checkpoint nor a SavedModel.*; give a checkp"):
        open_source(str(tmp_path / "none"), "warm_start=x")
    path = written(tmp_path / "model.ckpt-3", w=rows(0, 100))
    data = pathlib.Path(f"{path}.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:-9])
    with pytest.raises(ConfigError, match=r"^warm_start=x: .*is damaged or incomplete; give a checkpoint"):
        open_source(path, "warm_start=x")
