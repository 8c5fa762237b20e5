"""Uploads from a spool: a reader of the store finds whole checkpoints, wherever the chief was killed."""

from __future__ import annotations

import os
import pathlib
import tempfile
import uuid

import pytest
import tensorflow as tf

from ps_train.base.errors import RefusedError, SaveError
from ps_train.base.remote_files import RemoteDirectory
from ps_train.base.untrusted import UntrustedError, file_name
from ps_train.engine.run_directory import uploads as module
from ps_train.engine.run_directory.cut_checkpoints import EventCut, add_cut, read_cuts
from ps_train.engine.run_directory.kept_checkpoints import KeptCheckpoints
from ps_train.engine.run_directory.run_checkpoints import LIST, list_text, newest_checkpoint
from ps_train.engine.run_directory.run_files import read_run_id
from ps_train.engine.run_directory.run_record import begin_generation
from ps_train.engine.run_directory.spool import (
    SpoolReader,
    bring_evaluations,
    checkpoint_files,
    listed_in,
    open_chief_spool,
    remove_leftovers,
)
from ps_train.engine.run_directory.uploads import ChiefUploads, Uploader, evaluator_round
from tests.support.machine.processes import eventually
from tests.support.saved.checkpoints import write_checkpoint

fsspec = pytest.importorskip("fsspec")


class Killed(BaseException):
    """The end of a process between two uploads."""


class Store(RemoteDirectory):
    """A store in memory that ends the process at the change of that number, or fails while `is_down`."""

    def __init__(self, url: str, killed_at: int = -1) -> None:
        super().__init__(url)
        self.left, self.made, self.is_down = killed_at, 0, False

    def _put(self, name, put):
        self._count()
        super()._put(name, put)

    def remove(self, name):
        self._count()
        super().remove(name)

    def read(self, name):
        if self.is_down:
            raise OSError(503, "SlowDown")
        return super().read(name)

    def _count(self) -> None:
        if self.left == self.made:
            raise Killed
        if self.is_down:
            raise OSError(503, "SlowDown")
        self.made += 1


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    url = f"memory://{uuid.uuid4().hex}/run"
    yield url
    files = RemoteDirectory(url)
    if files.names():
        files.remove_all()


def save(spool: str, step: int, keep: int = 2) -> None:
    """Saves as the chief does: the checkpoint, the list, then the removal of old ones."""
    run = read_run_id(spool)
    if step == 0:
        begin_generation(spool, "b", 0)
    write_checkpoint(pathlib.Path(spool), step, run)
    steps = sorted((int(p.stem.rpartition("-")[2]) for p in pathlib.Path(spool).glob("*.index")), reverse=True)
    new = pathlib.Path(spool, f"{LIST}.new")
    new.write_text(list_text([f"model.ckpt-{one}" for one in steps[:keep]]))
    new.replace(spool + "/" + LIST)  # at once, as the chief does it
    for one in steps[keep:]:
        for file in pathlib.Path(spool).glob(f"model.ckpt-{one}.*"):
            file.unlink()


def chief(store: Store) -> tuple[str, ChiefUploads]:
    spool = open_chief_spool(store)
    return spool, ChiefUploads(store, spool, KeptCheckpoints(2), lambda: True)


def trained(store: Store, completed: list[int], steps=(0, 10, 20, 30)) -> None:
    spool, uploads = chief(store)
    for step in steps:
        save(spool, step)
        uploads.round(True)
        completed.append(step)


def forget_spool(tmp_path: pathlib.Path) -> None:
    """Goes to another machine."""
    for path in tmp_path.iterdir():
        path.rename(tmp_path.parent / f"{tmp_path.name}-{uuid.uuid4().hex}")


def values(path: str | None) -> tuple[int, float]:
    assert path is not None
    reader = tf.train.load_checkpoint(path)
    return int(reader.get_tensor("global_step")), float(reader.get_tensor("w")[0])


def test_killed_at_any_change_of_the_store_the_last_complete_checkpoint_is_found_on_another_machine(
    url: str, tmp_path: pathlib.Path
) -> None:
    whole = Store(url)
    trained(whole, [])
    assert listed_in(whole.read(LIST)) == ["model.ckpt-30", "model.ckpt-20"]
    assert sorted(checkpoint_files(whole.sizes())) == ["model.ckpt-20", "model.ckpt-30"]
    assert whole.made >= 18
    for number in range(1, whole.made):
        forget_spool(tmp_path)
        store, completed = Store(f"{url}-{number}", number), list[int]()
        with pytest.raises(Killed):
            trained(store, completed)
        store.left = -1
        listed, sizes = listed_in(store.read(LIST)), store.sizes()
        for name in listed:  # the reader of TensorFlow's list never sees a part
            assert {f"{name}.index", f"{name}.data-00000-of-00001"} <= sizes.keys()
        forget_spool(tmp_path)
        spool, uploads = chief(store)
        if completed:
            step, value = values(newest_checkpoint(spool))
            assert step == value >= completed[-1]
        save(spool, 40)
        uploads.round(True)
        assert listed_in(store.read(LIST))[0] == "model.ckpt-40" and len(listed_in(store.read(LIST))) <= 2
        store.remove_all()


def test_a_step_that_was_rolled_back_and_is_made_again_replaces_the_first(url: str, tmp_path: pathlib.Path) -> None:
    store = Store(url)
    spool, uploads = chief(store)
    for step in (0, 10):
        save(spool, step)
        uploads.round(True)
    first = store.read("model.ckpt-10.index")
    lists = list[list[str]]()
    write = store.write
    store.write = lambda name, data: (lists.append(listed_in(data)) if name == LIST else None, write(name, data))[1]
    begin_generation(spool, "c", 0)
    write_checkpoint(pathlib.Path(spool), 10, read_run_id(spool), "c")
    uploads.round(True)
    assert lists == [["model.ckpt-0"], ["model.ckpt-10", "model.ckpt-0"]]  # never a mixture of both in the list
    assert store.read("model.ckpt-10.index") != first
    forget_spool(tmp_path)
    assert values(newest_checkpoint(open_chief_spool(store))) == (10, 10.0)


def test_a_restart_on_the_same_machine_goes_on_from_what_was_not_uploaded(url: str, tmp_path: pathlib.Path) -> None:
    store = Store(url)
    trained(store, [], (0, 10))
    spool, _ = chief(store)
    save(spool, 20)  # and the process ends
    again, uploads = chief(store)
    assert again == spool and values(newest_checkpoint(again)) == (20, 20.0)
    uploads.round(True)
    assert listed_in(store.read(LIST)) == ["model.ckpt-20", "model.ckpt-10"]
    save(spool, 30)  # and a job on another machine is faster
    store.write(LIST, list_text(["model.ckpt-10"]).encode())
    for file in ("index", "data-00000-of-00001"):
        store.remove(f"model.ckpt-20.{file}")
    assert values(newest_checkpoint(open_chief_spool(store))) == (10, 10.0)


def test_a_damaged_newest_checkpoint_of_the_store_is_passed_over(url: str, tmp_path: pathlib.Path) -> None:
    store = Store(url)
    trained(store, [], (0, 10))
    store.write("model.ckpt-10.data-00000-of-00001", b"short")
    forget_spool(tmp_path)
    assert values(newest_checkpoint(open_chief_spool(store))) == (0, 0.0)


def test_a_store_that_fails_for_a_while_is_told_in_one_line_and_gets_the_newest_checkpoint(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(module, "_LOOK_SECS", 0.01)
    monkeypatch.setattr(module, "_RETRY_SECS", (0.02, 0.05))
    store = Store(url)
    spool, uploads = chief(store)
    uploader = Uploader(uploads.round, url)
    try:
        save(spool, 0)
        uploader.flush(20)
        store.is_down = True
        for step in (10, 20, 30):
            save(spool, step)
        eventually(lambda: "takes no files" in caplog.text, 10)
        with pytest.raises(SaveError, match=r"has not taken the last files within 0.2s \(\[Errno 503\] SlowDown\)"):
            uploader.flush(0.2)
        store.is_down = False
        uploader.flush(20)
        assert listed_in(store.read(LIST)) == ["model.ckpt-30", "model.ckpt-0"]
        assert caplog.text.count("takes no files") == 1 and caplog.text.count("takes files again") == 1
    finally:
        uploader.close()


def test_a_chief_that_has_lost_the_directory_uploads_no_list(url: str) -> None:
    store, told = Store(url), list[RefusedError]()
    spool = open_chief_spool(store)
    uploader = Uploader(ChiefUploads(store, spool, KeptCheckpoints(2), lambda: False).round, url, told.append)
    save(spool, 0)
    with pytest.raises(RefusedError, match="taken over"):
        uploader.flush(20)
    assert len(told) == 1 and store.read(LIST) is None


def test_an_evaluator_sees_the_newest_checkpoint_the_status_and_every_beat(
    url: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EVALUATIONS_SECS", 0.0)
    store = Store(url)
    spool, uploads = chief(store)
    here = tmp_path / "reader"
    (here / "eval").mkdir(parents=True)
    reader = SpoolReader(store, str(here))
    reader.bring()
    assert newest_checkpoint(str(here)) is None
    for step in (0, 10):
        save(spool, step)
        pathlib.Path(spool, "status.json").write_text('{"state": "running"}')
        store.write("lock.json", b"%d" % step)
        uploads.round(True)
        reader.bring()
        assert values(newest_checkpoint(str(here))) == (step, float(step))
    status = here / "status.json"
    os.utime(status, (1, 1))
    reader.bring()
    assert status.stat().st_mtime == 1
    store.write("lock.json", b"11")
    reader.bring()
    assert status.stat().st_mtime > 1  # a beat, although the contents are the same
    (here / "eval" / "events.out.tfevents.1").write_text("x")
    evaluator_round(store, str(here))(False)
    store.write("eval/../../escaped", b"x")
    uploads.round(True)
    assert pathlib.Path(spool, "eval", "events.out.tfevents.1").read_text() == "x"
    assert "model.ckpt-0.index" not in os.listdir(here)
    assert os.listdir(pathlib.Path(spool, "eval")) == ["events.out.tfevents.1"]


def test_the_files_of_an_ignored_run_are_moved_on_the_store(url: str) -> None:
    store = Store(url)
    spool, uploads = chief(store)
    save(spool, 10)
    pathlib.Path(spool, "result.json").write_text("{}")
    pathlib.Path(spool, "mine.txt").write_text("stays")
    uploads.round(True)
    line = uploads.set_aside()
    assert line == f"ignored the checkpoints of step 10; they are now in {url}/ignored-1; training starts at step 0"
    assert {"ignored-1/checkpoint", "ignored-1/model.ckpt-10.index", "ignored-1/result.json"} <= store.sizes().keys()
    assert sorted(name for name in store.sizes() if "/" not in name) == ["mine.txt"]
    assert not [name for name in os.listdir(spool) if name.startswith(("model.ckpt", "ignored"))]


def test_what_killed_uploads_have_left_is_removed_at_the_next_start(url: str, tmp_path: pathlib.Path) -> None:
    store = Store(url)
    trained(store, [])
    for name in ("model.ckpt-40.data-00000-of-00001", "model.ckpt-5.data-00000-of-00001", f"probe-{'0' * 32}"):
        store.write(name, b"cut")
    store.write("ignored-1/model.ckpt-7.data-00000-of-00001", b"kept")
    store.write("probe-of-the-user", b"kept")
    before = store.sizes()
    remove_leftovers(store)
    gone = {"model.ckpt-40.data-00000-of-00001", "model.ckpt-5.data-00000-of-00001", f"probe-{'0' * 32}"}
    assert store.sizes() == {name: size for name, size in before.items() if name not in gone}


def test_all_cuts_by_event_time_are_uploaded_although_other_checkpoints_are_passed_over(
    url: str, tmp_path: pathlib.Path
) -> None:
    store = Store(url)
    spool, uploads = chief(store)
    for step in (0, 10, 20, 30, 40, 50):
        save(spool, step, keep=10)
        if step in (10, 30, 40):
            add_cut(spool, EventCut(step * 1000, step, step * 1000 + 1), keep=2)
    uploads.round(True)
    assert listed_in(store.read(LIST)) == ["model.ckpt-50", "model.ckpt-40", "model.ckpt-30"]
    for step in (60, 70, 80):
        save(spool, step, keep=10)
        uploads.round(True)
    names = [f"model.ckpt-{step}" for step in (80, 70, 40, 30)]
    assert listed_in(store.read(LIST)) == names and {*checkpoint_files(store.sizes())} == {*names}
    forget_spool(tmp_path)
    again, _ = chief(store)
    assert [cut.step for cut in read_cuts(again)] == [30, 40]


KEYS = ["../x", "a/../../x", "/x", "a//x", "a\\x", "a\nx", "n" * 300, "..", "eval/../../x"]


def test_keys_of_a_store_that_are_not_names_are_left_out_and_lead_nowhere(url, tmp_path: pathlib.Path) -> None:
    store = RemoteDirectory(url)
    store.write("eval/events", b"x")
    files = fsspec.filesystem("memory")
    root = fsspec.core.url_to_fs(url)[1]
    for key in KEYS:
        files.store[f"{root}/{key}"] = fsspec.implementations.memory.MemoryFile(files, f"{root}/{key}", b"owned")
    assert store.sizes() == {"eval/events": 1} and all(name == file_name(name) for name in store.names())
    folder = tmp_path / "in" / "folder"
    folder.mkdir(parents=True)
    for key in KEYS:
        with pytest.raises(UntrustedError):
            store.download(key, str(folder))
    store.download("eval/events", str(folder))
    bring_evaluations(store, str(folder))
    assert [str(path) for path in (tmp_path / "in").rglob("*") if path.is_file()] == [str(folder / "eval" / "events")]
