"""Where each variable of a model begins, and why another one starts as new."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train import embeddings
from ps_train.base.errors import ConfigError
from ps_train.saved.warm_start.choices import FRESH, REMAPPED, TAKEN, Beginning, choose
from ps_train.saved.warm_start.name_map import read_map
from ps_train.saved.warm_start.source_checkpoint import SourceCheckpoint
from ps_train.saved.warm_start.table_routes import Route
from tests.support.graphs.tracing import traced, weights


def forward(features: tf.Tensor, **table: Any) -> tf.Tensor:
    outputs = features @ weights("w") + weights("b", shape=[1])
    if table:
        rows = embeddings.lookup("t", tf.cast(features[:, 0], tf.int64), dimension=2, **table)
        outputs += tf.reduce_sum(rows, 1, keepdims=True)
    return outputs


def choices(
    tmp_path: pathlib.Path, values: dict[str, np.ndarray], text: str = "", **table: Any
) -> dict[str, Beginning]:
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "a"), tensor_names=[*values], shape_and_slices=[""] * len(values),
        tensors=[tf.constant(value) for value in values.values()],
    )  # fmt: skip
    (tmp_path / "names.map").write_text(text)
    return choose(
        traced(lambda features: forward(features, **table)),
        SourceCheckpoint(str(tmp_path / "a"), "old"),
        read_map(str(tmp_path / "names.map")),
    )


W, B = np.ones([4, 1], np.float32), np.ones([1], np.float32)
OLD = {"w": W, "b": B}


def outcomes(found: dict[str, Beginning]) -> dict[str, tuple[str, str]]:
    return {name: (choice.outcome, choice.source) for name, choice in found.items()}


def test_equal_names_and_shapes_are_taken(tmp_path: pathlib.Path) -> None:
    found = choices(tmp_path, OLD)
    assert outcomes(found) == {"w": (TAKEN, "w"), "b": (TAKEN, "b")} and found["w"].route is None


def test_names_of_the_map_and_new_variables(tmp_path: pathlib.Path) -> None:
    found = choices(tmp_path, {"v": W, "b": B}, "w = v\nb =\n")
    assert outcomes(found) == {"w": (TAKEN, "v"), "b": (FRESH, "")}


@pytest.mark.parametrize(
    ("value", "note"),
    [(np.ones([5, 1], np.float32), r"w: shape \[5, 1\], here \[4, 1\]"), (W.astype(np.float64), "w: dtype float64")],
)
def test_a_variable_that_does_not_fit_starts_as_new_with_a_note_and_in_the_map_is_an_error(
    tmp_path: pathlib.Path, value: np.ndarray, note: str
) -> None:
    found = choices(tmp_path, {"w": value, "b": B})["w"]
    assert found.outcome == FRESH and re.search(note, found.note)
    with pytest.raises(ConfigError, match=rf"names\.map:1: w cannot begin with v: {note.removeprefix('w: ')}"):
        choices(tmp_path, {"v": value, "b": B}, "w = v")


def test_a_checkpoint_of_another_model_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match="old has no variable that fits one of the model"):
        choices(tmp_path, {"x": W})


def test_a_table_that_grew_keeps_its_rows(tmp_path: pathlib.Path) -> None:
    found = choices(tmp_path, OLD | {"t": np.zeros([5, 2], np.float32)}, rows=8)["t"]
    assert (found.outcome, found.source, found.note) == (REMAPPED, "t", "by id")
    assert found.route is not None and found.route.source_rows == 5 and found.route.rows == 5


@pytest.mark.parametrize(
    ("rows", "note"), [(np.zeros([5, 3], np.float32), "rows of [3], here of [2]"), (np.zeros([5, 2]), "dtype float64")]
)
def test_rows_of_another_kind_start_as_new(tmp_path: pathlib.Path, rows: np.ndarray, note: str) -> None:
    found = choices(tmp_path, OLD | {"t": rows}, rows=8)["t"]
    assert found.outcome == FRESH and note in found.note


def test_a_plain_table_becomes_an_open_vocabulary(tmp_path: pathlib.Path) -> None:
    found = choices(tmp_path, OLD | {"t": np.zeros([5, 2], np.float32)}, capacity=32)
    parts = {name: choice for name, choice in found.items() if name.startswith("t")}
    assert {choice.outcome for name, choice in parts.items() if name in ("t", "t/keys", "t/used")} == {REMAPPED}
    keys, used = parts["t/keys"].read, parts["t/used"].read
    assert keys is not None and used is not None
    assert keys(1, 3).tolist() == [[1], [2], [3]] and used(0, 2)[:, 0].tolist() == [1, 1]
    route: Any = parts["t"].route
    assert isinstance(route, Route) and route.rows == 5


def test_files_of_ids_remap_rows_of_a_variable_that_is_no_table(tmp_path: pathlib.Path) -> None:
    (tmp_path / "old.txt").write_text("a\nb\nc\nd\n")
    (tmp_path / "new.txt").write_text("d\nx\na\ny\n")
    found = choices(tmp_path, OLD, "w = w old_vocab=old.txt new_vocab=new.txt")["w"]
    assert found.outcome == REMAPPED and found.route is not None
    rows, places = found.route.places(0, 4)
    assert dict(zip(rows.tolist(), places.tolist(), strict=True)) == {0: 2, 3: 0}


@pytest.mark.parametrize(
    ("text", "table", "fault"),
    [
        ("w = w old_vocab=old.txt", {}, "w has one file of ids: give old_vocab=FILE and new_vocab=FILE"),
        ("t = t old_vocab=a new_vocab=b", {"capacity": 32}, "t has capacity, and finds its ids itself"),
    ],
)
def test_files_of_ids_must_fit_the_table(tmp_path: pathlib.Path, text: str, table: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        choices(tmp_path, OLD | {"t": np.zeros([5, 2], np.float32)}, text, **table)
