"""One living process at a time writes into a model directory; a lock that its holder left is no obstacle."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
import time
import uuid

import pytest

from ps_train.base.errors import ConfigError, RefusedError
from ps_train.base.remote_files import RemoteDirectory
from ps_train.cluster.membership import directory_lock
from ps_train.cluster.membership.directory_lock import NAME, DirectoryLock, held_directory, held_remote_directory
from ps_train.cluster.membership.records import TaskStatus, new_task_status
from tests.support.machine.processes import ROOT, eventually

HOLD = """
import sys, time
from ps_train.cluster.membership.directory_lock import DirectoryLock
DirectoryLock(sys.argv[1], "worker:0", 10).acquire()
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_lock, "BEAT_SECS", 0.05)


def leave(directory: pathlib.Path, age: float = 0.0, **changes: object) -> TaskStatus:
    """Leaves a lock of this process, with some changes, as old as that."""
    holder = dataclasses.replace(new_task_status("worker:0"), **changes)
    new = directory / "new"
    new.write_text(holder.to_json())
    os.utime(new, (time.time() - age, time.time() - age))
    new.replace(directory / NAME)  # at once, as another process does it
    return holder


def gone() -> int:
    return int(subprocess.check_output([sys.executable, "-c", "import os; print(os.getpid())"]))


def test_a_second_living_process_is_refused_at_once_and_told_the_first(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline() == "held\n"
            began = time.monotonic()
            with pytest.raises(RefusedError, match=rf"{tmp_path} is in use by worker:0 on .*pid {holder.pid}"):
                DirectoryLock(str(tmp_path), "chief:0", lease_secs=60).acquire()
            assert time.monotonic() - began < 25
        finally:
            holder.kill()
        holder.wait(10)
        with held_directory(str(tmp_path), "worker:0", lease_secs=60):
            assert f'"pid": {os.getpid()}' in (tmp_path / NAME).read_text()
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_process_that_has_ended_is_taken_over_at_once_with_a_line(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    holder = leave(tmp_path, pid=gone())
    began = time.monotonic()
    with held_directory(str(tmp_path), "worker:0", lease_secs=60):
        assert time.monotonic() - began < 25
    assert f"taken over: {holder.location()} has ended" in caplog.text


def test_the_lock_of_a_zombie_is_free(tmp_path: pathlib.Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        from ps_train.base.process_ids import process_exited, start_time

        holder = leave(tmp_path, pid=child.pid, started=start_time(child.pid))
        assert not process_exited(holder)
        assert child.stdin is not None
        child.stdin.close()
        eventually(lambda: process_exited(holder), 10, "the end of a process that has not been waited for")


@pytest.mark.parametrize("changes", [{"host": "elsewhere"}, {"machine": "another boot"}, {"machine": ""}])
def test_a_lock_from_elsewhere_counts_as_long_as_it_is_touched(tmp_path: pathlib.Path, changes: dict[str, str]) -> None:
    leave(tmp_path, 5, **changes)
    mine = DirectoryLock(str(tmp_path), "worker:0", lease_secs=60)
    looks = iter(range(1000))
    look = mine._read

    def touched_at_the_third_look() -> tuple[str, float] | None:
        if next(looks) == 2:
            os.utime(tmp_path / NAME)
        return look()

    mine._read = touched_at_the_third_look  # type: ignore[method-assign]
    with pytest.raises(RefusedError, match="is in use by worker:0"):
        mine.acquire()
    assert next(looks) >= 3


def test_a_lock_from_elsewhere_that_nobody_touches_is_free_after_the_lease(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    leave(tmp_path, host="elsewhere")
    began = time.monotonic()
    DirectoryLock(str(tmp_path), "worker:0", lease_secs=0.5).acquire()
    assert time.monotonic() - began >= 0.4 and "has given no sign of life" in caplog.text
    leave(tmp_path, 100, host="elsewhere")
    began = time.monotonic()
    DirectoryLock(str(tmp_path), "worker:0", lease_secs=60).acquire()
    assert time.monotonic() - began < 25


def test_a_lock_that_another_process_takes_over_first_is_its_own_for_a_whole_lease(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, host="elsewhere", pid=1)
    lock = DirectoryLock(str(tmp_path), "chief:0", lease_secs=0.5)
    monkeypatch.setattr(lock, "_take_over", lambda text, cause: leave(tmp_path, host="elsewhere", pid=2))
    with pytest.raises(RefusedError, match="is in use by worker:0 on elsewhere, pid 2"):
        lock.acquire()


def test_a_file_that_is_no_lock_is_free_after_the_lease(tmp_path: pathlib.Path) -> None:
    for text in ("", "[1", '{"task": "worker:0", "new": 1}'):
        (tmp_path / NAME).write_text(text)
        DirectoryLock(str(tmp_path), "worker:0", lease_secs=0.3).acquire()


def test_a_holder_touches_its_lock_makes_it_again_and_notices_when_it_is_taken(tmp_path: pathlib.Path) -> None:
    path, told = tmp_path / NAME, list[RefusedError]()
    with held_directory(str(tmp_path), "worker:0", lease_secs=60) as lock:
        lock.watch(told.append)
        os.utime(path, (1, 1))
        eventually(lambda: path.stat().st_mtime > 1, 10, "a new time of the file")
        path.unlink()
        eventually(path.exists, 10, "the file again")
        other = leave(tmp_path, host="elsewhere", task="worker:7")
        eventually(lambda: told, 10, "the news of the loss")
    assert "was taken over by worker:7 on elsewhere" in str(told[0])
    assert path.read_text() == other.to_json()  # another process's lock is not removed


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("directory", "Is a directory"),
        ("dangling", "No such file or directory"),
        ("loop", "Too many levels of symbolic"),
    ],
)
def test_a_lock_that_cannot_be_read_is_refused_and_not_waited_for(
    tmp_path: pathlib.Path, kind: str, cause: str
) -> None:
    lock = tmp_path / NAME
    if kind == "directory":
        lock.mkdir()
    else:
        lock.symlink_to("nothing" if kind == "dangling" else NAME)
    with pytest.raises(ConfigError, match=rf"{lock}, the lock of model_dir, cannot be read \({cause}"):
        DirectoryLock(str(tmp_path), "worker:0", lease_secs=3).acquire()


def test_of_two_chiefs_on_a_store_one_gets_the_directory_and_takes_it_over_from_a_silent_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("fsspec")
    caplog.set_level("INFO")
    monkeypatch.setattr(directory_lock, "REMOTE_BEAT_SECS", 0.1)
    monkeypatch.setattr(directory_lock, "_REMOTE_LOOK_SECS", 0.05)
    monkeypatch.setattr(directory_lock._RemoteLock, "_look_secs", 0.05)
    remote, told = RemoteDirectory(f"memory://{uuid.uuid4().hex}/run"), list[RefusedError]()
    with held_remote_directory(remote, "worker:0", 0.5) as first:
        first.watch(told.append)
        second = held_remote_directory(remote, "chief:0", 0.5)
        with pytest.raises(RefusedError, match=f"{remote.url} is in use by worker:0 on "), second:
            pass
        beat = remote.read(NAME)
        eventually(lambda: remote.read(NAME) != beat, 10, "a beat")
        elsewhere = dataclasses.replace(new_task_status("worker:7"), host="elsewhere").to_json().encode()
        remote.write(NAME, elsewhere + b"\n5\n")
        eventually(lambda: told, 10, "the news of the loss")
        assert not first.is_held()
    assert "was taken over by worker:7 on elsewhere" in str(told[0])
    assert remote.read(NAME) == elsewhere + b"\n5\n"  # another process's lock is not removed
    with held_remote_directory(remote, "worker:0", 0.5):
        assert "worker:7 on elsewhere" in caplog.text and "has given no sign of life for" in caplog.text
    assert remote.read(NAME) is None
    dead = dataclasses.replace(new_task_status("worker:0"), pid=gone()).to_json().encode()
    remote.write(NAME, dead + b"\n5\n")
    began = time.monotonic()
    with held_remote_directory(remote, "worker:0", 60):
        assert time.monotonic() - began < 25 and "has ended" in caplog.text
