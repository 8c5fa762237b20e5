"""Values of checkpoints and SavedModels in parts, and the hash of their content."""

from __future__ import annotations

import itertools
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.engine.run_directory.checkpoint_contents import CHUNK_BYTES
from ps_train.saved.values import RowRun, all_parts, hash_of, hash_of_values, open_saved, parts_of, spec_of
from tests.support.saved.checkpoints import write_checkpoint
from tests.support.saved.exported_models import write_export


def write(path: pathlib.Path, values: Mapping[str, Any]) -> str:
    tf.raw_ops.SaveV2(
        prefix=str(path), tensor_names=[*values], shape_and_slices=[""] * len(values),
        tensors=[tf.constant(value) for value in values.values()],
    )  # fmt: skip
    return str(path)


VALUES: dict[str, Any] = {"b": np.arange(6, dtype=np.float32).reshape(3, 2), "a": np.int64(7), "c": [b"x", b"yz"]}


def test_small_values_are_one_part_and_large_ones_have_rows_of_at_most_the_size_of_a_chunk() -> None:
    assert parts_of("w", ([], tf.int64)) == [RowRun("w", 0, -1)] == parts_of("w", ([1000, 4], tf.float32))
    rows = 5 * CHUNK_BYTES // (4 * 1024) // 2
    kind = ([rows, 1024], tf.float32)
    parts = parts_of("w", kind)
    assert parts[0].begin == 0 and sum(part.rows for part in parts) == rows
    assert all(one.begin + one.rows == two.begin for one, two in itertools.pairwise(parts))
    assert all(part.rows * 4096 <= CHUNK_BYTES for part in parts) and len(parts) == math.ceil(2.5)
    assert spec_of(parts[1], kind) == f"{rows} 1024 {parts[1].begin},{parts[1].rows}:0,1024"
    assert spec_of(RowRun("w", 0, -1), kind) == ""
    giant = ([3, CHUNK_BYTES], tf.float32)
    assert parts_of("w", giant) == [RowRun("w", row, 1) for row in range(3)]  # never less than a row
    assert len(list(all_parts({"w": kind, "v": kind}, ["v", "w"]))) == 2 * len(parts)


def test_the_hash_is_that_of_names_kinds_and_values(tmp_path: pathlib.Path) -> None:
    same = hash_of_values(open_saved(write(tmp_path / "one", VALUES)).values, {})
    again = hash_of_values(open_saved(write(tmp_path / "two", dict(reversed(VALUES.items())))).values, {})
    assert same == again and len(same) == 64
    changes: list[dict[str, Any]] = [
        {"a": np.int64(8)},
        {"a": np.int32(7)},
        {"b": VALUES["b"].reshape(2, 3)},
        {"c": [b"xy", b"z"]},
        {"d": np.int64(7)},
    ]
    others = [
        hash_of_values(open_saved(write(tmp_path / f"other-{number}", VALUES | change)).values, {})
        for number, change in enumerate(changes)
    ]
    assert len({same, *others}) == 6
    assert hash_of_values(open_saved(str(tmp_path / "one")).values, {"x": "1"}) != same


def test_strings_of_another_division_and_arrays_of_another_order_have_other_hashes() -> None:
    assert hash_of(np.array([b"xy", b"z"], object)) != hash_of(np.array([b"x", b"yz"], object))
    array = np.arange(6).reshape(2, 3)
    assert hash_of(array.T) == hash_of(np.ascontiguousarray(array.T)) != hash_of(array)


def test_a_directory_stands_for_its_newest_good_checkpoint(tmp_path: pathlib.Path) -> None:
    for step in (5, 10):
        write_checkpoint(tmp_path, step, run="")
    saved = open_saved(str(tmp_path))
    assert saved.name == "model.ckpt-10" and saved.folder == "" and saved.values.read("w").tolist() == [10.0] * 8
    assert open_saved(str(tmp_path / "model.ckpt-5")).values.read("w", 2, 3).tolist() == [5.0] * 3
    for step in (5, 10):
        (tmp_path / f"model.ckpt-{step}.index").write_bytes(b"damaged")
    with pytest.raises(ConfigError, match=r"no checkpoint in .* can be read: all are damaged"):
        open_saved(str(tmp_path))


def test_a_saved_model_has_other_files_too(tmp_path: pathlib.Path) -> None:
    folder = write_export(tmp_path / "export" / "1")
    saved = open_saved(folder)
    assert "saved_model.pb" in saved.files and not any(name.startswith("variables") for name in saved.files)
    before = saved.hash()
    os.makedirs(f"{folder}/assets", exist_ok=True)
    pathlib.Path(folder, "assets", "new.txt").write_text("x")
    assert open_saved(folder).hash() != before and "assets/new.txt" in open_saved(folder).files


def test_what_is_neither_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match="neither a checkpoint nor"):
        open_saved(str(tmp_path))
    (tmp_path / "a.txt").write_text("x")
    for name in ("a.txt", "none"):
        with pytest.raises(ConfigError, match="is no checkpoint and no SavedModel"):
            open_saved(str(tmp_path / name))
