"""The local directory in which a task works instead of one on an object store."""

from __future__ import annotations

import json
import os
import pathlib
import uuid

import pytest

from ps_train.base.errors import ConfigError
from ps_train.base.remote_files import RemoteDirectory
from ps_train.base.untrusted import UntrustedError
from ps_train.engine.run_directory import spool
from ps_train.engine.run_directory.run_checkpoints import LIST
from tests.support.saved.checkpoints import write_checkpoint

pytest.importorskip("fsspec")


@pytest.fixture(autouse=True)
def temporary(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(spool.tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


@pytest.fixture
def remote() -> RemoteDirectory:
    return RemoteDirectory(f"memory://{uuid.uuid4().hex}/run")


def list_of(*steps: int) -> bytes:
    lines = [f'model_checkpoint_path: "model.ckpt-{steps[0]}"']
    return "\n".join([*lines, *(f'all_model_checkpoint_paths: "model.ckpt-{step}"' for step in steps)]).encode()


def put(remote: RemoteDirectory, folder: pathlib.Path, *steps: int) -> None:
    folder.mkdir(exist_ok=True)
    for step in steps:
        write_checkpoint(folder, step, run="")
    for file in os.listdir(folder):
        remote.upload(str(folder / file), file)
    remote.write(LIST, list_of(*sorted(steps, reverse=True)))


def test_the_list_is_read_with_the_highest_step_first() -> None:
    assert spool.listed_in(list_of(5, 100, 20)) == ["model.ckpt-100", "model.ckpt-20", "model.ckpt-5"]
    assert spool.listed_in(None) == spool.listed_in(b"\xff") == []
    assert spool.listed_in('model_checkpoint_path: "/elsewhere/model.ckpt-5"') == []
    assert spool.step_of("model.ckpt-100") == 100


def test_a_checkpoint_counts_if_its_index_is_there() -> None:
    sizes = dict.fromkeys(
        ["model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001", "model.ckpt-2.data-00000-of-00001", "x.index"], 1
    )
    assert spool.checkpoint_files(sizes) == {"model.ckpt-1": ["model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001"]}


def test_leftovers_of_killed_processes_are_removed(remote: RemoteDirectory) -> None:
    kept = ["model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001", "notes.txt", "probe-x"]
    for name in [*kept, "model.ckpt-2.data-00000-of-00001", f"probe-{'0' * 32}"]:
        remote.write(name, b"x")
    spool.remove_leftovers(remote)
    assert sorted(remote.sizes()) == sorted(kept)


def test_the_directory_of_spools_belongs_to_this_user_alone(temporary: pathlib.Path) -> None:
    path = pathlib.Path(spool.spools_directory())
    assert path.parent == temporary and path.stat().st_mode & 0o777 == 0o700
    path.chmod(0o722)
    with pytest.raises(ConfigError, match="is not a directory of this user alone"):
        spool.spools_directory()
    path.rmdir()
    path.symlink_to(temporary)
    with pytest.raises(ConfigError, match="is not a directory of this user alone"):
        spool.spools_directory()


def test_a_spool_is_found_by_address_and_role() -> None:
    assert spool.spool_path("s3://a", "chief") == spool.spool_path("s3://a", "chief")
    assert len({spool.spool_path(url, role) for url in ("s3://a", "s3://b") for role in ("chief", "predict")}) == 4


def test_a_chief_takes_the_newest_checkpoint_and_uses_its_spool_again(
    remote: RemoteDirectory, tmp_path: pathlib.Path
) -> None:
    put(remote, tmp_path / "made", 5, 10)
    path = pathlib.Path(spool.open_chief_spool(remote))
    assert (path / "model.ckpt-10.index").exists() and not (path / "model.ckpt-5.index").exists()
    (path / "not uploaded").write_text("x")
    assert spool.open_chief_spool(remote) == str(path) and (path / "not uploaded").exists()
    put(remote, tmp_path / "made", 5, 10, 15)  # another chief has written there since
    assert spool.open_chief_spool(remote) == str(path) and not (path / "not uploaded").exists()
    assert spool.read_state(str(path))[0] == ["model.ckpt-15", "model.ckpt-10", "model.ckpt-5"]


def test_a_changed_state_is_damaged(remote: RemoteDirectory, tmp_path: pathlib.Path) -> None:
    spool.write_state(str(tmp_path), ["model.ckpt-1"], {})
    assert spool.read_state(str(tmp_path)) == (["model.ckpt-1"], {"model.ckpt-1": []})
    state = json.loads((tmp_path / spool.STATE).read_text())
    state["listed"] = ["model.ckpt-2"]
    (tmp_path / spool.STATE).write_text(json.dumps(state))
    with pytest.raises(UntrustedError):
        spool.read_state(str(tmp_path))


def test_an_evaluator_has_a_spool_of_its_own_with_the_earlier_evaluations(remote: RemoteDirectory) -> None:
    remote.write("eval/events.out", b"123")
    dead = f"{spool.spool_path(remote.url, 'evaluator-')}4194305"
    os.makedirs(dead)
    with spool.evaluator_spool(remote) as path:
        assert pathlib.Path(path, "eval", "events.out").read_bytes() == b"123" and not os.path.exists(dead)
        remote.write("eval/events.out", b"12345")
        spool.bring_evaluations(remote, path)
        assert pathlib.Path(path, "eval", "events.out").read_bytes() == b"12345"
    assert not os.path.exists(path)


def test_a_reader_has_the_newest_checkpoint_alone(remote: RemoteDirectory, tmp_path: pathlib.Path) -> None:
    made, own = tmp_path / "made", tmp_path / "own"
    own.mkdir()
    reader = spool.SpoolReader(remote, str(own))
    reader.bring()  # nothing is there yet
    assert os.listdir(own) == []
    for step in (5, 10):
        put(remote, made, step)
        reader.bring()
        assert [name for name in sorted(os.listdir(own)) if name.endswith(".index")] == [f"model.ckpt-{step}.index"]
    remote.write(LIST, list_of(99))
    with pytest.raises(FileNotFoundError, match=r"model\.ckpt-99 was removed since"):
        reader.bring()
