"""Lock of a model directory: a file in it that names the chief which writes there.

    with held_directory("/models/run1", "worker:0", lease_secs=10) as lock:     # RefusedError names another holder
        lock.watch(events.set_terminal_error)       # called if another process takes the directory over

The rules are those of a task lease (`lease.py`).  The holder touches the file every second, on an object store every
ten.  The lock is free as soon as its process has exited, as far as that can be seen from here, or when it has been
silent for `lease_secs`.  Ages are measured by the file system's clock, or by the time that this process has seen no
beat, so clocks are not compared between machines.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import tempfile
import time
from collections.abc import Callable

from ps_train.base.errors import ConfigError, RefusedError
from ps_train.base.life_sign import LastChange, LifeSign
from ps_train.base.process_ids import host_identity, process_exited
from ps_train.base.remote_files import RemoteDirectory
from ps_train.base.untrusted import UntrustedError, read_text, read_text_and_stat
from ps_train.base.whole_file import write_whole
from ps_train.cluster.membership.records import TaskStatus, new_task_status

log = logging.getLogger(__name__)

NAME = "lock.json"
BEAT_SECS, REMOTE_BEAT_SECS = 1.0, 10.0
_LOOK_SECS, _REMOTE_LOOK_SECS = 0.1, 1.0
_LAST_BEAT_SECS = 5.0
_FRESH_SECS = 3 * BEAT_SECS
"""The age up to which the lock of a living process of this machine needs no second look."""


def held_directory(directory: str, task: str, lease_secs: float) -> DirectoryLock:
    """Returns the lock of a local directory, which the body of `with` holds; see `DirectoryLock.acquire`."""
    return DirectoryLock(directory, task, max(lease_secs, _FRESH_SECS))


def held_remote_directory(remote: RemoteDirectory, task: str, lease_secs: float) -> DirectoryLock:
    """Returns the lock of a directory on an object store, which the body of `with` holds.

    Entering it also raises OSError, or an exception of the file system's package, if the store cannot be used.
    """
    return _RemoteLock(remote, task, max(lease_secs, 3 * REMOTE_BEAT_SECS))


class DirectoryLock:
    """The lock of one directory, for this process, which holds it within `with`.

    Args:
      directory: the directory, which exists.
      task: name of the task of this process.
      lease_secs: seconds after which a silent holder loses the lock.
    """

    def __init__(self, directory: str, task: str, lease_secs: float) -> None:
        self.directory, self._path = directory, os.path.join(directory, NAME)
        self._text = new_task_status(task).to_json() + "\n"
        self._lease_secs = lease_secs
        self._is_held = False
        self._on_lost: Callable[[RefusedError], None] | None = None
        self._sign = LifeSign("directory lock", self._beat, BEAT_SECS)

    _errors: tuple[type[Exception], ...] = (OSError,)
    _look_secs = _LOOK_SECS

    def __enter__(self) -> DirectoryLock:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Waits until it is known whether the lock is free, and acquires it.

        Raises:
          RefusedError: a living process holds it.
          ConfigError: the file is there and cannot be read.
        """
        last = LastChange()
        last.secs(self._read(), time.monotonic())
        while not self._create():
            found = self._read()
            if found is None:
                self._check_removed()
                continue
            text, touched = found
            if text == self._text:
                break
            holder, age = _holder_of(text), self._age(touched)
            has_changed, secs = last.is_new(found), last.secs(found, time.monotonic())
            if reason := self._free_reason(holder, max(age, secs)):
                self._take_over(text, f"{_location(holder)} {reason}")
            elif has_changed or (_is_here(holder) and age < _FRESH_SECS):
                raise RefusedError(
                    f"model_dir={self.directory} is in use by {_location(holder)} ({NAME}): stop that job, or use "
                    "another --model_dir."
                )
            else:
                time.sleep(self._look_secs)
        self._is_held = True
        self._sign.start()

    def watch(self, on_lost: Callable[[RefusedError], None]) -> None:
        """Sets the function that is called, from another thread, if another process takes the lock over."""
        self._on_lost = on_lost

    def release(self) -> None:
        """Removes the file, unless it is another process's."""
        self._sign.stop(_LAST_BEAT_SECS)  # its last beat must not make the file again
        with contextlib.suppress(*self._errors):
            found = self._read()
            if self._is_held and found is not None and found[0] == self._text:
                self._remove()

    def is_held(self) -> bool:
        """Returns False if another process has taken the lock over."""
        found = self._read()
        return found is None or found[0] == self._text

    def _free_reason(self, holder: TaskStatus | None, silent_secs: float) -> str:
        """Returns why the lock is free; "" if it may be in use."""
        if holder is not None and process_exited(holder):
            return "has ended"
        return f"has given no sign of life for {silent_secs:.0f}s" if silent_secs > self._lease_secs else ""

    def _create(self) -> bool:
        """Makes the file; returns False if there is one."""
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return False
        with os.fdopen(descriptor, "w") as file:
            file.write(self._text)
        return True

    def _check_removed(self) -> None:
        try:
            with contextlib.suppress(UntrustedError):
                read_text(self._path)
        except OSError as error:
            if not isinstance(error, FileNotFoundError) or os.path.islink(self._path):
                raise ConfigError(
                    f"{self._path}, the lock of model_dir, cannot be read ({error.strerror}): stop the job that made "
                    "it, or remove it."
                ) from None

    def _take_over(self, text: str, cause: str) -> None:
        """Replaces the file if it still has this text; of two processes that do so, the first is told by `watch`."""
        found = self._read()
        if found is None or found[0] != text:
            return
        self._replace()
        log.info("model_dir=%s is taken over: %s", self.directory, cause)

    def _replace(self) -> None:
        write_whole(self._path, self._text, is_contended=True)

    def _touch(self) -> None:
        os.utime(self._path)

    def _remove(self) -> None:
        os.remove(self._path)

    def _age(self, touched: float) -> float:
        return self._now() - touched

    def _read(self) -> tuple[str, float] | None:
        """Returns the text and the time of the file; None without one."""
        try:
            try:
                text, stat = read_text_and_stat(self._path)
            except UntrustedError:
                text, stat = "", os.stat(self._path)  # of no process
            return text, stat.st_mtime
        except OSError:
            return None

    def _now(self) -> float:
        """Returns the time of the file system's clock."""
        with tempfile.TemporaryFile(dir=self.directory) as probe:
            probe.write(b"x")
            probe.flush()
            return os.fstat(probe.fileno()).st_mtime

    def _beat(self) -> None:
        with contextlib.suppress(*self._errors):  # the directory may have been removed, or be out of reach
            found = self._read()
            if self._sign.is_stopped:
                return
            if found is None:
                self._create()
            elif found[0] == self._text:
                self._touch()
            elif self._on_lost is not None:
                self._sign.stop()
                location = _location(_holder_of(found[0]))
                self._on_lost(RefusedError(f"model_dir={self.directory} was taken over by {location}"))


class _RemoteLock(DirectoryLock):
    """The lock of a directory on an object store, whose second line counts the beats of its holder."""

    _errors = (Exception,)
    _look_secs = _REMOTE_LOOK_SECS

    def __init__(self, remote: RemoteDirectory, task: str, lease_secs: float) -> None:
        super().__init__(remote.url, task, lease_secs)
        self._remote, self._beats = remote, 0
        self._sign = LifeSign("directory lock", self._beat, REMOTE_BEAT_SECS)

    def _data(self) -> bytes:
        return f"{self._text}{self._beats}\n".encode()

    def _create(self) -> bool:
        return self._remote.create(NAME, self._data())

    def _check_removed(self) -> None:
        return

    def _replace(self) -> None:
        self._remote.write(NAME, self._data())

    def _touch(self) -> None:
        self._beats += 1
        self._replace()

    def _remove(self) -> None:
        self._remote.remove(NAME)

    def _age(self, touched: float) -> float:
        return 0.0  # only the time without a beat counts

    def _read(self) -> tuple[str, float] | None:
        data = self._remote.read(NAME)
        if data is None:
            return None
        text, _, beats = data.decode(errors="replace").rstrip("\n").rpartition("\n")
        return text + "\n", float(beats) if beats.isascii() and beats.isdigit() else -1.0


def _holder_of(text: str) -> TaskStatus | None:
    """Returns the holder that a lock names; None if the file is not complete."""
    try:
        return TaskStatus.from_json(text)
    except RefusedError:
        return None


def _location(holder: TaskStatus | None) -> str:
    return "an unknown process" if holder is None else holder.location()


def _is_here(holder: TaskStatus | None) -> bool:
    """Returns True if a process's pid means something here."""
    return holder is not None and holder.host == socket.gethostname() and holder.machine == host_identity() != ""
