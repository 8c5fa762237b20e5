"""The spool of a directory on a store: what of the store it has, and what of itself it may keep."""

from __future__ import annotations

import os
import pathlib
import tempfile
import uuid

import pytest

from ps_train.base.errors import ConfigError
from ps_train.base.remote_files import RemoteDirectory
from ps_train.base.untrusted import UntrustedError
from ps_train.engine.run_directory.run_checkpoints import LIST, list_text
from ps_train.engine.run_directory.run_record import GENERATIONS, RUN_ID
from ps_train.engine.run_directory.spool import (
    STATE,
    SpoolReader,
    bring_checkpoint,
    bring_down,
    bring_evaluations,
    bring_record,
    checkpoint_files,
    evaluator_spool,
    listed_in,
    open_chief_spool,
    read_file,
    read_state,
    spool_path,
    spools_directory,
    step_of,
    version_of,
    write_state,
)
from tests.support.saved.checkpoints import write_checkpoint

pytest.importorskip("fsspec")

NAMES = ["model.ckpt-9", "model.ckpt-10"]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = RemoteDirectory(f"memory://{uuid.uuid4().hex}/run")
    yield store
    if store.names():
        store.remove_all()


def put(store: RemoteDirectory, step: int, listed: bool = True) -> None:
    for part in ("data-00000-of-00002", "data-00001-of-00002", "index"):
        store.write(f"model.ckpt-{step}.{part}", f"{part} of {step}".encode())
    if listed:
        store.write(LIST, list_text([f"model.ckpt-{step}"]).encode())


def content(folder: str | pathlib.Path) -> dict[str, str]:
    return {name: pathlib.Path(folder, name).read_text() for name in sorted(os.listdir(folder))}


def of_step(step: int) -> dict[str, str]:
    parts = ("data-00000-of-00002", "data-00001-of-00002", "index")
    return {f"model.ckpt-{step}.{part}": f"{part} of {step}" for part in parts}


def test_a_list_is_read_with_the_highest_step_first_and_each_name_once() -> None:
    text = list_text(NAMES)
    assert listed_in(text) == listed_in(text.encode()) == ["model.ckpt-10", "model.ckpt-9"]
    assert [step_of(name) for name in NAMES] == [9, 10]
    assert listed_in(None) == listed_in(b"\xff") == listed_in('model_checkpoint_path: "/tmp/model.ckpt-3"') == []


def test_only_files_of_checkpoints_with_an_index_count() -> None:
    files = ["model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001", "model.ckpt-2.data-00000-of-00001"]
    others = ["model.ckpt-3.index.tmp", "other.ckpt-4.index", "model.ckpt-.index", "eval/model.ckpt-5.index"]
    assert checkpoint_files(dict.fromkeys([*files, *others], 1)) == {"model.ckpt-1": files[:2]}


def test_spools_are_in_a_directory_of_this_user_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = spools_directory()
    assert os.path.dirname(folder) == str(tmp_path) and os.stat(folder).st_mode & 0o777 == 0o700
    assert spools_directory() == folder
    paths = {spool_path(url, role) for url in ("s3://a", "s3://b") for role in ("chief", "evaluator-1")}
    assert len(paths) == 4 and {os.path.dirname(path) for path in paths} == {folder}
    assert spool_path("s3://a", "chief") in paths and not any(map(os.path.exists, paths))
    for mode in (0o720, 0o702):
        os.chmod(folder, mode)
        with pytest.raises(ConfigError, match="is not a directory of this user alone"):
            spools_directory()
    os.rmdir(folder)
    os.symlink(tmp_path, folder)
    with pytest.raises(ConfigError, match="remove it, or set TMPDIR"):
        spools_directory()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match=r"cannot be made \(No such file or directory\): set TMPDIR"):
        spools_directory()


def test_the_directory_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = spools_directory()
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    os.rename(folder, f"{tmp_path}/ps_train_spools_{owner + 1}")
    with pytest.raises(ConfigError, match="is not a directory of this user alone"):
        spools_directory()


def test_the_state_of_a_spool_is_read_as_it_was_written(tmp_path: pathlib.Path) -> None:
    version: list[list[object]] = [["model.ckpt-10.index", 5, 7]]
    write_state(str(tmp_path), NAMES, {"model.ckpt-10": version, "model.ckpt-8": version})
    assert read_state(str(tmp_path)) == (NAMES, {"model.ckpt-9": [], "model.ckpt-10": version})
    path = tmp_path / STATE
    path.write_text(path.read_text().replace("ckpt-10", "ckpt-11"))
    with pytest.raises(UntrustedError):
        read_state(str(tmp_path))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        read_state(str(tmp_path))


def test_a_version_changes_with_the_files(tmp_path: pathlib.Path) -> None:
    assert version_of(str(tmp_path), "model.ckpt-1") == []
    index = tmp_path / "model.ckpt-1.index"
    index.write_text("12345")
    os.utime(index, ns=(7, 7))
    assert version_of(str(tmp_path), "model.ckpt-1") == [["model.ckpt-1.index", 7, 5]]


def test_a_checkpoint_comes_with_its_index_last(store: RemoteDirectory, tmp_path: pathlib.Path) -> None:
    put(store, 3)
    order: list[str] = []
    files = sorted(checkpoint_files(store.sizes())["model.ckpt-3"], reverse=True)  # the index first

    class Noting(RemoteDirectory):
        def download(self, name: str, folder: str) -> None:
            order.append(name)
            super().download(name, folder)

    (tmp_path / "here").mkdir()
    bring_checkpoint(Noting(store.url), str(tmp_path / "here"), "model.ckpt-3", files)
    assert order[-1] == "model.ckpt-3.index" and content(tmp_path / "here") == of_step(3)


@pytest.mark.parametrize("whole", [20, None])
def test_checkpoints_come_down_from_the_newest_to_one_that_is_whole(store, tmp_path, whole) -> None:
    for step in (3, 20, 100):
        put(store, step)
    store.write(RUN_ID, b"mine")
    store.write(GENERATIONS, b"b 0\n")
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
    if whole:
        for part in ("data-00000-of-00002", "data-00001-of-00002", "index"):
            store.remove(f"model.ckpt-{whole}.{part}")
        write_checkpoint(elsewhere, whole, "mine")
        for file in elsewhere.iterdir():
            store.write(file.name, file.read_bytes())
    bring_down(store, str(here))
    steps = {step_of(name) for name in checkpoint_files(dict.fromkeys(os.listdir(here), 1))}
    assert steps == ({100, 20} if whole else {100, 20, 3})
    assert {RUN_ID, GENERATIONS} <= set(os.listdir(here))


def test_the_record_is_what_the_store_has_of_it(store: RemoteDirectory, tmp_path: pathlib.Path) -> None:
    store.write(RUN_ID, b"mine")
    store.write("result.json", b"{}")
    (tmp_path / "here").mkdir()
    bring_record(store, str(tmp_path / "here"))
    assert content(tmp_path / "here") == {RUN_ID: "mine"}


def test_evaluations_come_when_they_are_new_or_have_another_size(store: RemoteDirectory, tmp_path) -> None:
    folder = tmp_path / "here" / "eval"
    folder.mkdir(parents=True)
    for name, data in (("same", b"12"), ("new", b"1"), ("grown", b"123")):
        store.write(f"eval/{name}", data)
    (folder / "same").write_text("ab")
    (folder / "grown").write_text("ab")
    bring_evaluations(store, str(tmp_path / "here"))
    assert content(folder) == {"grown": "123", "new": "1", "same": "ab"}


@pytest.mark.parametrize("change", ["nothing", "list", "run", "no run", "state"])
def test_a_chief_keeps_its_spool_while_the_store_is_as_it_left_it(store: RemoteDirectory, change: str) -> None:
    store.write(LIST, list_text(["model.ckpt-3"]).encode())
    store.write(RUN_ID, b"mine")
    spool = open_chief_spool(store)
    assert spool == spool_path(store.url, "chief") and read_state(spool)[0] == ["model.ckpt-3"]
    pathlib.Path(spool, "not uploaded yet").write_text("x")
    if change == "list":
        store.write(LIST, list_text(["model.ckpt-4"]).encode())
    elif change == "run":
        store.write(RUN_ID, b"another")
    elif change == "no run":
        store.remove(RUN_ID)
    elif change == "state":
        pathlib.Path(spool, STATE).write_text("damaged")
    assert open_chief_spool(store) == spool
    assert os.path.exists(f"{spool}/not uploaded yet") == (change in ("nothing", "no run"))
    assert read_state(spool)[0] == (["model.ckpt-4"] if change == "list" else ["model.ckpt-3"])


def test_an_evaluator_s_spool_goes_with_it_and_those_of_ended_ones_before(store: RemoteDirectory) -> None:
    store.write("eval/events", b"1")
    ended, living = (spool_path(store.url, f"evaluator-{pid}") for pid in (1 << 30, os.getppid()))
    other = spool_path("memory://other", f"evaluator-{1 << 30}")
    for path in (ended, living, other):
        os.makedirs(path)
    with pytest.raises(KeyError), evaluator_spool(store) as spool:
        assert spool == spool_path(store.url, f"evaluator-{os.getpid()}") and content(f"{spool}/eval") == {
            "events": "1"
        }
        assert [os.path.exists(path) for path in (ended, living, other)] == [False, True, True]
        raise KeyError
    assert not os.path.exists(spool) and os.path.exists(living)


def test_a_reader_brings_the_newest_checkpoint_of_the_list_once_and_leaves_no_other(store, tmp_path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    reader = SpoolReader(store, str(here))
    reader.bring()
    assert content(here) == {}
    put(store, 3)
    put(store, 20, listed=False)
    reader.bring()
    assert content(here) == {LIST: list_text(["model.ckpt-3"]), **of_step(3)}
    (here / "model.ckpt-3.index").unlink()
    reader.bring()
    assert "model.ckpt-3.index" not in content(here), "what has not changed is not brought again"
    store.write(GENERATIONS, b"a 0\n")
    reader.bring()
    assert content(here) == {GENERATIONS: "a 0\n", LIST: list_text(["model.ckpt-3"]), **of_step(3)}
    put(store, 20)
    reader.bring()
    assert content(here) == {GENERATIONS: "a 0\n", LIST: list_text(["model.ckpt-20"]), **of_step(20)}


def test_a_checkpoint_that_went_between_list_and_files_is_told_and_tried_again(store, tmp_path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    reader = SpoolReader(store, str(here))
    store.write(LIST, list_text(["model.ckpt-3"]).encode())
    store.write("status.json", b"{}")
    with pytest.raises(FileNotFoundError, match=r"model\.ckpt-3 was removed since the list was read"):
        reader.bring()
    assert content(here) == {}, "no status before its checkpoint"
    put(store, 3)
    reader.bring()
    assert content(here)["status.json"] == "{}" and of_step(3).items() <= content(here).items()


def test_a_file_is_its_content_or_none(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff")
    assert (read_file(str(tmp_path / "file")), read_file(str(tmp_path / "no"))) == (b"\xff", None)
