"""Values of checkpoints and SavedModels: parts, hashes that depend on the content alone, and what may be opened."""

from __future__ import annotations

import hashlib
import itertools
import os
import pathlib
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.base.untrusted import UntrustedError
from ps_train.saved import values as values_module
from ps_train.saved.values import (
    RowRun,
    Writer,
    all_parts,
    hash_of,
    hash_of_file,
    hash_of_values,
    open_saved,
    parts_of,
    spec_of,
)
from tests.support.saved.checkpoints import mixed_directory, read_values, write_checkpoint
from tests.support.saved.exported_models import write_table_export


def written(path: pathlib.Path, *pieces: tuple[str, Any] | tuple[str, Any, str]) -> str:
    writer = Writer(str(path))
    for piece in pieces:
        writer.add(*piece)
    writer.close()
    return str(path)


@pytest.mark.parametrize(
    ("shape", "dtype", "runs"),
    [
        ([], tf.float32, [(0, -1)]),
        ([25, 2], tf.float32, [(0, -1)]),  # 200 bytes
        ([26, 2], tf.float32, [(0, 25), (25, 1)]),
        ([60, 2], tf.float32, [(0, 25), (25, 25), (50, 10)]),
        ([3, 1000], tf.float64, [(0, 1), (1, 1), (2, 1)]),
        ([1000], tf.string, [(0, -1)]),
        ([1000], tf.float16, [(0, -1)]),
        ([0, 7], tf.float32, [(0, -1)]),
    ],
)
def test_a_large_variable_has_parts_of_whole_rows(
    monkeypatch: pytest.MonkeyPatch, shape: list[int], dtype: tf.DType, runs: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(values_module, "CHUNK_BYTES", 200)
    assert parts_of("v", (shape, dtype)) == [RowRun("v", *run) for run in runs]


def test_parts_are_in_the_order_of_names_and_have_their_place() -> None:
    kinds = {name: ([3, 2], tf.float32) for name in "ba"}
    assert all_parts(kinds, ["b", "a"]) == [RowRun("a", 0, -1), RowRun("b", 0, -1)]
    assert spec_of(RowRun("a", 0, -1), kinds["a"]) == "" and spec_of(RowRun("a", 1, 2), kinds["a"]) == "3 2 1,2:0,2"


def test_a_writer_keeps_every_part_of_a_value(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.arange(60, dtype=np.float32).reshape(20, 3)
    words = np.array([b"a", b"", b"\xff\0"], object)
    pieces: list[Any] = [
        ("t", table[:9], "20 3 0,9:0,3"), ("words", words), ("t", table[9:15], "20 3 9,6:0,3"), ("n", np.int64(7)),
        ("t", table[15:], "20 3 15,5:0,3"),
    ]  # fmt: skip
    for size in (1, 100, 1 << 20):
        monkeypatch.setattr(values_module, "CHUNK_BYTES", size)
        found = read_values(written(tmp_path / f"{size}", *pieces))
        assert found.keys() == {"t", "words", "n"} and np.array_equal(found["t"], table) and found["n"] == 7
        assert found["words"].tolist() == words.tolist()
    assert not [name for name in os.listdir(tmp_path) if name.endswith("_temp")]
    assert read_values(written(tmp_path / "none")) == {"nothing": 0}


def test_the_hash_is_that_of_the_content_alone(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values_module, "CHUNK_BYTES", 200)
    table, other = np.arange(90, dtype=np.float32).reshape(30, 3), np.float64([1, 2])

    def found(name: str, *pieces: Any, **files: str) -> str:
        return hash_of_values(open_saved(written(tmp_path / name, *pieces)).values, files)

    first = found("a", ("t", table), ("b", other))
    cut = [("t", table[10:], "30 3 10,20:0,3"), ("b", other), ("t", table[:10], "30 3 0,10:0,3")]
    assert first == found("b", *cut)
    swapped = table[[1, 0, *range(2, 30)]]
    others = [
        found("c", ("t", swapped), ("b", other)),
        found("d", ("t", table), ("c", other)),
        found("e", ("t", table), ("b", other.reshape(2, 1))),
        found("f", ("t", table), ("b", other.view(np.int64))),
        found("g", ("t", table), ("b", other), x="1"),
        found("h", ("t", table), ("b", other), x="2"),
        found("i", ("t", table), ("b", other), y="1"),
    ]
    assert len({first, *others}) == 8


def test_strings_of_other_lengths_have_another_hash() -> None:
    texts = [[b"ab", b"c"], [b"a", b"bc"], [b"abc", b""], [b"abc"]]
    assert len({hash_of(np.array(some, object)) for some in texts}) == len(texts)
    for one, another in itertools.pairwise([np.float32(1), np.float32(2)]):
        assert hash_of(one) != hash_of(another) and hash_of(one) == hashlib.sha256(one.tobytes()).digest()
    matrix = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert hash_of(matrix.T) == hash_of(matrix.T.copy()) == hashlib.sha256(matrix.T.tobytes()).digest()


def test_a_large_file_is_hashed_whole_and_a_pipe_is_refused(tmp_path: pathlib.Path) -> None:
    content = os.urandom((2 << 20) + 5)
    (tmp_path / "a").write_bytes(content)
    assert hash_of_file(str(tmp_path / "a")) == hashlib.sha256(content).hexdigest()
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(UntrustedError, match="is not a regular file"):
            hash_of_file(str(tmp_path / name))
    with pytest.raises(FileNotFoundError):
        hash_of_file(str(tmp_path / "none"))


def test_a_checkpoint_a_directory_and_a_saved_model_are_opened(tmp_path: pathlib.Path) -> None:
    (tmp_path / "run").mkdir()
    good = mixed_directory(tmp_path / "run")
    found = open_saved(str(tmp_path / "run"))
    assert (found.values.path, found.folder, found.name) == (str(good), "", "model.ckpt-20")
    assert open_saved(str(good)).values.path == str(good)
    export = write_table_export(tmp_path / "export", np.zeros([3, 2], np.float32), 1.0)
    pathlib.Path(export, "assets.extra").mkdir()
    pathlib.Path(export, "assets.extra", "note").write_text("x")
    saved = open_saved(export)
    assert saved.folder == export and saved.files == ("assets.extra/note", "saved_model.pb")
    assert saved.values.kinds.keys() == {"table", "weight"} and saved.name == "variables"
    assert saved.file_hashes()["assets.extra/note"] == hashlib.sha256(b"x").hexdigest()
    before = saved.hash()
    pathlib.Path(export, "assets.extra", "note").write_text("y")
    assert open_saved(export).hash() != before
    pathlib.Path(export, "assets.extra", "note").unlink()
    os.mkfifo(os.path.join(export, "assets.extra", "note"))
    with pytest.raises(ConfigError, match=r"export cannot be read: .*note is not a regular file"):
        saved.hash()


def test_what_cannot_be_opened_says_why(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r"has neither a checkpoint nor saved_model\.pb"):
        open_saved(str(tmp_path))
    (tmp_path / "file").write_text("x")
    for name in ("none", "file"):
        with pytest.raises(
            ConfigError, match=rf"is neither a checkpoint nor a SavedModel: there is no file .*/{name}\.in"
        ):
            open_saved(str(tmp_path / name))
    data = pathlib.Path(f"{write_checkpoint(tmp_path, 3, run='')}.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:5])
    with pytest.raises(ConfigError, match=r"no checkpoint in .* can be read: all are damaged, or of another run"):
        open_saved(str(tmp_path))
