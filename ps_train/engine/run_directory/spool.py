"""Spool of a model directory on an object store: the local directory in which a task works instead.

    remote = RemoteDirectory("s3://bucket/runs/1")
    spool = open_chief_spool(remote)            # has the run's id and its newest whole checkpoint
    ...                                         # `uploads.py` uploads what the chief writes there
    with evaluator_spool(remote) as spool:
        SpoolReader(remote, spool).bring()      # again and again

A checkpoint counts as in `run_checkpoints.py`: it is brought down, then judged.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping

from ps_train.base.errors import ConfigError
from ps_train.base.remote_files import RemoteDirectory, is_probe
from ps_train.base.untrusted import UntrustedError, is_of, parse_json, read_text, sealed, unsealed
from ps_train.base.whole_file import write_whole
from ps_train.cluster.membership.directory_lock import NAME as LOCK_FILE
from ps_train.cluster.membership.run_status import STATUS_FILE
from ps_train.engine.run_directory.run_checkpoints import (
    LIST,
    NAME,
    files_version,
    is_whole,
    run_checkpoints,
    write_list,
)
from ps_train.engine.run_directory.run_files import EVAL_DIRECTORY, RECORDS
from ps_train.engine.run_directory.run_record import GENERATIONS, RUN_ID

STATE = ".uploaded"
"""File of a chief's spool: the checkpoints in the store's list, as this spool knows it, and their files here."""

Version = list[list[object]]
"""Name, time in ns and size of each file of a checkpoint in a spool; empty without files."""

_FILE = re.compile(rf"({NAME}-(\d+))\.(index|data-\d+-of-\d+)")
_LISTED = re.compile(rf'^(?:all_)?model_checkpoint_paths?: "({NAME}-\d+)"$', re.MULTILINE)


def step_of(name: str) -> int:
    """Returns the global step of a checkpoint from its name."""
    return int(name.rpartition("-")[2])


def listed_in(text: bytes | str | None) -> list[str]:
    """Returns the names of checkpoints in TensorFlow's list, highest step first; [] without a list."""
    text = text.decode(errors="replace") if isinstance(text, bytes) else text or ""
    return sorted(set(_LISTED.findall(text)), key=step_of, reverse=True)


def spools_directory() -> str:
    """Makes the directory of all spools of this user, in TMPDIR, and returns it.

    Raises:
      ConfigError: it cannot be made, or it belongs to another user.
    """
    path = os.path.join(tempfile.gettempdir(), f"ps_train_spools_{os.getuid()}")
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        found = os.lstat(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be made ({error.strerror}): set TMPDIR to another directory.") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise ConfigError(f"{path} is not a directory of this user alone: remove it, or set TMPDIR to another one.")
    return path


def spool_path(url: str, role: str) -> str:
    """Returns the directory in which a process works for an address; it is not made."""
    return os.path.join(spools_directory(), f"{hashlib.sha256(url.encode()).hexdigest()[:16]}-{role}")


def open_chief_spool(remote: RemoteDirectory) -> str:
    """Returns the spool of a chief, which holds the lock of the directory.

    An earlier chief of this machine may have left its spool.  It is used again if the store still has what that chief
    uploaded last: then it has all of the store, and what was not uploaded any more.  Otherwise the store counts.

    Raises:
      OSError, or an exception of the file system's package.
    """
    spool = spool_path(remote.url, "chief")
    listed = listed_in(remote.read(LIST))
    if not _is_current(remote, spool, listed):
        shutil.rmtree(spool, ignore_errors=True)
        os.makedirs(spool)
        bring_down(remote, spool)
        write_state(spool, listed, {name: version_of(spool, name) for name in listed})
    return spool


@contextlib.contextmanager
def evaluator_spool(remote: RemoteDirectory) -> Iterator[str]:
    """Makes the spool of an evaluator, with the earlier evaluations; removes it at the end."""
    folder, prefix = os.path.split(spool_path(remote.url, "evaluator-"))
    for name in os.listdir(folder):  # of processes that were killed
        pid = name.removeprefix(prefix)
        if name.startswith(prefix) and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    spool = os.path.join(folder, f"{prefix}{os.getpid()}")
    try:
        os.makedirs(os.path.join(spool, EVAL_DIRECTORY), exist_ok=True)
        bring_evaluations(remote, spool)
        yield spool
    finally:
        shutil.rmtree(spool, ignore_errors=True)


def version_of(spool: str, name: str) -> Version:
    """Returns a value that changes when the files of a checkpoint in a spool do."""
    return [[os.path.basename(path), time, size] for path, time, size, _ in files_version(os.path.join(spool, name))]


def write_state(spool: str, listed: list[str], versions: Mapping[str, Version]) -> None:
    """Writes down the checkpoints in the store's list, and the versions that are there."""
    state = sealed({"listed": listed, "versions": {name: versions.get(name, []) for name in listed}})
    write_whole(os.path.join(spool, STATE), json.dumps(state))


def read_state(spool: str) -> tuple[list[str], dict[str, Version]]:
    """Returns the checkpoints in the store's list, highest step first, and their versions.

    Raises:
      OSError: there is no such file.
      UntrustedError: it is damaged.
    """
    state = unsealed(parse_json(read_text(os.path.join(spool, STATE))))
    if not is_of("list[str]", state.get("listed")) or not is_of("dict[str, list]", state.get("versions")):
        raise UntrustedError("it has other fields")
    return state["listed"], state["versions"]


def _is_current(remote: RemoteDirectory, spool: str, listed: list[str]) -> bool:
    try:
        known, _ = read_state(spool)
    except (OSError, UntrustedError):
        return False
    return known == listed and remote.read(RUN_ID) in (None, read_file(os.path.join(spool, RUN_ID)))


def remove_leftovers(remote: RemoteDirectory) -> None:
    """Removes what killed processes have left on a store: files of checkpoints without an index, and probes.

    The caller holds the lock of the directory.  A checkpoint's index goes up last and is removed first.

    Raises:
      OSError, or an exception of the file system's package.
    """
    sizes = remote.sizes()
    whole = {file for files in checkpoint_files(sizes).values() for file in files}
    for name in sizes:
        if (_FILE.fullmatch(name) and name not in whole) or is_probe(name):
            remote.remove(name)


def bring_down(remote: RemoteDirectory, spool: str) -> None:
    """Brings the record of the run and its newest whole checkpoint down into an empty spool.

    Damaged checkpoints after it, and those of other runs, come too: the restore says what is wrong with them.

    Raises:
      OSError, or an exception of the file system's package.
    """
    found = checkpoint_files(remote.sizes())
    bring_record(remote, spool)
    for name in sorted(found, key=step_of, reverse=True):
        bring_checkpoint(remote, spool, name, found[name])
        path = os.path.join(spool, name)
        if path in [one for _, one in run_checkpoints(spool)] and is_whole(path):
            return


def bring_record(remote: RemoteDirectory, spool: str) -> None:
    """Brings down what the run knows of itself, and its list of checkpoints."""
    for name in RECORDS:
        data = remote.read(name)
        if data is not None:
            write_whole(os.path.join(spool, name), data)


def bring_checkpoint(remote: RemoteDirectory, spool: str, name: str, files: list[str]) -> None:
    """Brings a checkpoint down; its index appears last, when the rest is complete."""
    for file in sorted(files, key=lambda file: file.endswith(".index")):
        remote.download(file, spool)


def bring_evaluations(remote: RemoteDirectory, spool: str) -> None:
    """Brings down the event files of evaluations that are new or have grown."""
    for name, size in remote.sizes(EVAL_DIRECTORY).items():
        local = os.path.join(spool, EVAL_DIRECTORY, name)
        if not os.path.exists(local) or os.path.getsize(local) != size:
            remote.download(f"{EVAL_DIRECTORY}/{name}", spool)


class SpoolReader:
    """The part of a reader: it brings the newest checkpoint and the status of the run into its spool.

    Args:
      remote: the directory on the store.
      spool: the spool of this reader.
    """

    def __init__(self, remote: RemoteDirectory, spool: str) -> None:
        self._remote, self._spool = remote, spool
        self._checkpoint: tuple[bytes | None, ...] = ()
        self._status: tuple[bytes | None, ...] = ()

    def bring(self) -> None:
        """Brings what is new: the checkpoint before the status that belongs to it.

        Raises:
          OSError, or an exception of the file system's package; the next call goes on.
        """
        status = (self._remote.read(STATUS_FILE), self._remote.read(LOCK_FILE))  # the lock has the chief's beats
        self._bring_checkpoint()
        if status[0] is not None and status != self._status:
            write_whole(os.path.join(self._spool, STATUS_FILE), status[0])
            self._status = status

    def _bring_checkpoint(self) -> None:
        version = (self._remote.read(LIST), self._remote.read(GENERATIONS))
        names = listed_in(version[0])
        if not names or version == self._checkpoint:
            return
        files = checkpoint_files(self._remote.sizes()).get(names[0])
        if files is None:
            raise FileNotFoundError(f"{names[0]} was removed since the list was read")
        bring_checkpoint(self._remote, self._spool, names[0], files)
        bring_record(self._remote, self._spool)
        write_list(self._spool, names)
        self._checkpoint = version
        for file in os.listdir(self._spool):
            if (match := _FILE.fullmatch(file)) and match[1] != names[0]:
                os.remove(os.path.join(self._spool, file))


def checkpoint_files(sizes: dict[str, int]) -> dict[str, list[str]]:
    """Returns the files of each checkpoint that has an index, which is uploaded last and removed first."""
    found: dict[str, list[str]] = {}
    for file in sizes:
        if match := _FILE.fullmatch(file):
            found.setdefault(match[1], []).append(file)
    return {name: files for name, files in found.items() if f"{name}.index" in files}


def read_file(path: str) -> bytes | None:
    """Returns the content of a file; None if it is not there."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
