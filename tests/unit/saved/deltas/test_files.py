"""Files of deltas: copies with their hashes, and directories that appear whole."""

from __future__ import annotations

import hashlib
import os
import pathlib

import pytest

from ps_train.base.errors import ConfigError, DamagedCheckpointError
from ps_train.saved.deltas.files import copy_file, graph_hash, has_hash, new_folder
from ps_train.saved.values import open_saved
from tests.support.saved.checkpoints import write_checkpoint
from tests.support.saved.exported_models import write_export

DIGEST = hashlib.sha256(b"content").hexdigest()


def test_a_copy_has_the_hash_of_the_manifest(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    copy_file(str(tmp_path / "a"), str(tmp_path / "to"), "below/a", DIGEST)
    assert (tmp_path / "to" / "below" / "a").read_bytes() == b"content"
    assert has_hash(str(tmp_path / "a"), DIGEST) and not has_hash(str(tmp_path), DIGEST)
    assert not has_hash(str(tmp_path / "none"), DIGEST)


@pytest.mark.parametrize("kind", ["other", "missing", "pipe", "outside"])
def test_another_file_is_damaged(tmp_path: pathlib.Path, kind: str) -> None:
    path, name = tmp_path / "a", "a"
    if kind == "other":
        path.write_bytes(b"contents")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "outside":
        path.write_bytes(b"content")
        name = "../out"
    with pytest.raises(DamagedCheckpointError, match=f"{path} is damaged or missing"):
        copy_file(str(path), str(tmp_path / "to"), name, DIGEST)
    assert not (tmp_path / "out").exists()


def test_a_folder_appears_when_it_is_complete(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "deltas" / "2"
    with new_folder(str(target), "--to") as unfinished:
        pathlib.Path(unfinished, "a").write_text("x")
        assert not target.exists()
    assert (target / "a").read_text() == "x"
    with pytest.raises(KeyError), new_folder(str(tmp_path / "3"), "--to"):
        raise KeyError
    assert not (tmp_path / "3").exists()


def test_a_folder_that_is_not_empty_or_cannot_be_made_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("x")
    for name, fault in (("file", "is there already"), (".", "is there already"), ("file/x", "cannot be made")):
        with (
            pytest.raises(ConfigError, match=f"--to={tmp_path}/{name} {fault}"),
            new_folder(f"{tmp_path}/{name}", "--to"),
        ):
            pass
    (tmp_path / "empty").mkdir()
    with new_folder(str(tmp_path / "empty"), "--to"):
        pass


def test_the_fingerprint_of_a_graph_changes_with_shapes_or_the_graph(tmp_path: pathlib.Path) -> None:
    one, two = (graph_hash(open_saved(str(write_checkpoint(tmp_path, step)))) for step in (5, 10))
    other = graph_hash(open_saved(str(write_checkpoint(tmp_path, 15, run=""))))
    assert one == two != other
    exported = open_saved(write_export(tmp_path / "1"))
    assert graph_hash(exported) == hashlib.sha256((tmp_path / "1" / "saved_model.pb").read_bytes()).hexdigest()
