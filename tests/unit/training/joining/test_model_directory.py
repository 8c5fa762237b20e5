"""The model directory of a task, local or on a store: its errors, its uploads, and its end."""

from __future__ import annotations

import os
import pathlib
import types
from typing import Any

import pytest

from ps_train.base.errors import ConfigError, RefusedError, SaveError, UnreachableError
from ps_train.base.remote_files import RemoteDirectory
from ps_train.config.job import Job, Task
from ps_train.training.joining import model_directory
from ps_train.training.joining.model_directory import (
    ModelDirectory,
    _answered,
    check_model_dir,
    directory_of_chief,
    directory_of_evaluator,
    end_upload,
)

pytest.importorskip("fsspec")
CHIEF = Task("worker", 0)


class Uploader:
    def __init__(self, fails: bool = False) -> None:
        self.calls: list[Any] = []
        self._fails = fails

    def flush(self, within_secs: float) -> None:
        self.calls.append(within_secs)
        if self._fails:
            raise SaveError("3 files are not uploaded")

    def close(self) -> None:
        self.calls.append("close")


def remote_directory(path: str, fails: bool = False) -> tuple[ModelDirectory, Uploader]:
    lock: Any = types.SimpleNamespace(watch=lambda on_lost: None)
    uploads: Any = types.SimpleNamespace(set_aside=lambda: "set aside there")
    uploader: Any = Uploader(fails)
    return ModelDirectory(path, "s3://b/run", lock, uploads, uploader), uploader


def test_a_local_directory_is_made_held_and_free_again(tmp_path: pathlib.Path) -> None:
    job = Job(model_dir=str(tmp_path / "m"))
    with directory_of_chief(job, CHIEF) as directory:
        assert directory.path == directory.name == str(tmp_path / "m") and os.path.isdir(directory.path)
        directory.flush(5.0)  # nothing to upload
        end_upload(directory, is_done=True)
        with pytest.raises(RefusedError), directory_of_chief(job, CHIEF):
            pass
    with directory_of_chief(job, CHIEF):
        pass


def test_files_that_were_not_uploaded_are_named_with_their_place(tmp_path: pathlib.Path) -> None:
    directory, _ = remote_directory(str(tmp_path), fails=True)
    with pytest.raises(SaveError, match=f"3 files are not uploaded: they are in {tmp_path}, and a job on this machine"):
        directory.flush(1.0)


@pytest.mark.parametrize(("is_done", "secs"), [(True, 60.0), (False, 3.0)])
def test_the_spool_goes_when_all_is_uploaded(tmp_path: pathlib.Path, is_done: bool, secs: float) -> None:
    (tmp_path / "spool").mkdir()
    directory, uploader = remote_directory(str(tmp_path / "spool"))
    end_upload(directory, is_done)
    assert uploader.calls == [secs, "close"] and not (tmp_path / "spool").exists()


def test_a_job_that_is_done_needs_its_files_and_a_stopped_one_does_not_wait(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory, uploader = remote_directory(str(tmp_path), fails=True)
    with pytest.raises(SaveError):
        end_upload(directory, is_done=True)
    end_upload(directory, is_done=False)
    assert "3 files are not uploaded" in caplog.text and tmp_path.exists() and uploader.calls == [60.0, 3.0]


def test_an_ignored_run_is_set_aside_where_it_is(tmp_path: pathlib.Path) -> None:
    assert remote_directory(str(tmp_path))[0].set_aside() == "set aside there"


def test_the_loss_of_the_directory_is_told_by_lock_and_uploads(tmp_path: pathlib.Path) -> None:
    directory, uploader = remote_directory(str(tmp_path))
    directory.watch(print)  # type: ignore[arg-type]
    assert uploader.on_lost is print  # type: ignore[attr-defined]


def test_a_call_is_made_again_until_the_store_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_directory, "_PAUSE_SECS", 0.0)
    left = [OSError("slow"), TimeoutError("slower")]

    def call() -> str:
        if left:
            raise left.pop()
        return "answer"

    assert _answered(Job(model_dir="s3://b"), call, within_secs=60.0) == "answer"


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (
            PermissionError("no rights"),
            ConfigError,
            r"model_dir=s3://b.* cannot be used \(no rights\): check the address",
        ),
        (OSError("slow"), UnreachableError, r"model_dir=s3://b.* does not answer \(slow\)"),
        (RefusedError("held"), RefusedError, "^held$"),
    ],
)
def test_an_error_that_stays_is_told_at_once(error: Exception, kind: type[Exception], text: str) -> None:
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        raise error

    with pytest.raises(kind, match=text):
        _answered(Job(model_dir="s3://b"), call, within_secs=0.0)
    assert len(calls) == 1


def test_a_store_is_checked_before_training(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"local://{tmp_path}/run"
    check_model_dir(Job(model_dir=address))
    assert RemoteDirectory(address).sizes() == {}
    check_model_dir(Job(model_dir="somewhere"))

    def slow(self: Any) -> None:
        raise TimeoutError("slow")

    monkeypatch.setattr(RemoteDirectory, "check_writable", slow)
    check_model_dir(Job(model_dir=address))  # the chief waits for it

    def refuses(self: Any) -> None:
        raise PermissionError("no rights")

    monkeypatch.setattr(RemoteDirectory, "check_writable", refuses)
    with pytest.raises(ConfigError, match="no rights"):
        check_model_dir(Job(model_dir=address))


def test_an_evaluator_reads_a_directory_that_may_come_later(tmp_path: pathlib.Path) -> None:
    with directory_of_evaluator(Job(model_dir=str(tmp_path / "later"))) as found:
        assert found.path == str(tmp_path / "later") and not os.path.exists(found.path)
        found.refresh()
        found.end()
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(ConfigError, match="is not a directory"),
        directory_of_evaluator(Job(model_dir=f"{tmp_path}/file")),
    ):
        pass
    with pytest.raises(ConfigError, match="an evaluator needs --model_dir"), directory_of_evaluator(Job(model_dir="")):
        pass


def test_a_store_that_cannot_be_read_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, results = (
        types.SimpleNamespace(now=100.0),
        [OSError("a"), OSError("b"), None, OSError("c"), FileNotFoundError()],
    )

    class Reader:
        def __init__(self, *arguments: Any) -> None: ...

        def bring(self) -> None:
            if (error := results.pop(0)) is not None:
                raise error

    monkeypatch.setattr(model_directory, "SpoolReader", Reader)
    monkeypatch.setattr(model_directory.time, "monotonic", lambda: clock.now)
    remote: Any = types.SimpleNamespace(url="s3://b/run")
    refresh = model_directory._Refresh(remote, "spool")
    for _ in range(5):
        refresh()
        refresh()  # not due yet
        clock.now += 2.0
    assert results == []
    assert [text.partition(" (")[2][0] for text in caplog.messages if "cannot be read" in text] == ["a", "c"]
