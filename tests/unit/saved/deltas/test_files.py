"""Files of deltas: copies with their hashes, fingerprints of graphs, directories that appear whole."""

from __future__ import annotations

import hashlib
import os
import pathlib

import numpy as np
import pytest

from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.saved.deltas.files import copy_file, graph_hash, has_hash, new_folder
from ps_train.saved.values import Writer, open_saved
from tests.support.saved.exported_models import write_table_export

CONTENT = b"some bytes"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def saved_hash(path: pathlib.Path, **values: np.ndarray) -> str:
    writer = Writer(str(path))
    for name, value in values.items():
        writer.add(name, value)
    writer.close()
    return graph_hash(open_saved(str(path)))


def test_the_graph_of_a_checkpoint_is_its_names_shapes_and_dtypes(tmp_path: pathlib.Path) -> None:
    zeros, ones = np.zeros([3, 2], np.float32), np.ones([3, 2], np.float32)
    first = saved_hash(tmp_path / "a", x=zeros, y=zeros)
    assert first == saved_hash(tmp_path / "b", y=ones, x=ones)
    others = [
        saved_hash(tmp_path / "c", x=zeros),
        saved_hash(tmp_path / "d", x=zeros, z=zeros),
        saved_hash(tmp_path / "e", x=zeros, y=np.zeros([2, 3], np.float32)),
        saved_hash(tmp_path / "f", x=zeros, y=zeros.astype(np.float64)),
    ]
    assert len({first, *others}) == 5


def test_the_graph_of_a_saved_model_is_its_file(tmp_path: pathlib.Path) -> None:
    path = write_table_export(tmp_path / "export", np.zeros([3, 2], np.float32), 1.0)
    content = pathlib.Path(path, "saved_model.pb").read_bytes()
    assert graph_hash(open_saved(path)) == hashlib.sha256(content).hexdigest()


def test_only_a_regular_file_has_a_hash(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    os.mkfifo(tmp_path / "pipe")
    assert has_hash(str(tmp_path / "a"), DIGEST) and not has_hash(str(tmp_path / "a"), DIGEST[:-1] + "x")
    assert not any(has_hash(str(tmp_path / name), DIGEST) for name in ("none", "pipe", "."))


def test_a_copy_gets_its_name_below_the_directory(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    copy_file(str(tmp_path / "a"), str(tmp_path / "to"), "assets/x/a", DIGEST)
    assert (tmp_path / "to" / "assets" / "x" / "a").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("name", "source", "digest", "words"),
    [
        ("../b", "a", DIGEST, r"a is damaged or missing \("),
        ("b", "a", DIGEST[::-1], "it has another hash than the manifest says"),
        ("b", "none", DIGEST, "it is not a regular file"),
        ("b", "pipe", DIGEST, "it is not a regular file"),
        ("b", ".", DIGEST, "it is not a regular file"),
    ],
)
def test_a_damaged_file_is_not_taken(tmp_path: pathlib.Path, name: str, source: str, digest: str, words: str) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DamagedCheckpointError, match=words):
        copy_file(str(tmp_path / source), str(tmp_path / "to"), name, digest)
    assert not (tmp_path / "b").exists()


def test_a_directory_gets_its_name_when_it_is_complete(tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        with new_folder(str(tmp_path / name), "--to") as unfinished:
            pathlib.Path(unfinished, "x").write_text("1")
            assert not (tmp_path / name / "x").exists()
        assert (tmp_path / name / "x").read_text() == "1"
    with pytest.raises(ZeroDivisionError), new_folder(str(tmp_path / "failed"), "--to"):
        raise ZeroDivisionError
    assert sorted(os.listdir(tmp_path)) == ["empty", "new"]


@pytest.mark.parametrize("name", ["full", "file"])
def test_a_directory_that_is_in_use_is_left_alone(tmp_path: pathlib.Path, name: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("1")
    (tmp_path / "file").write_text("1")
    with (
        pytest.raises(ConfigError, match=f"--to={tmp_path / name} is there already: use another directory"),
        new_folder(str(tmp_path / name), "--to"),
    ):
        raise AssertionError
    assert (tmp_path / "full" / "x").read_text() == (tmp_path / "file").read_text() == "1"
    with (
        pytest.raises(ConfigError, match=r"--to=.*/file/x cannot be made \(Not a directory\): use another directory"),
        new_folder(str(tmp_path / "file" / "x"), "--to"),
    ):
        raise AssertionError
