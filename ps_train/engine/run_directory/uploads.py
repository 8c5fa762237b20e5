"""Uploads from a spool to the model directory on an object store.

    uploads = ChiefUploads(remote, spool, KeptCheckpoints(5), is_held=lock.is_held)
    uploader = Uploader(uploads.round, "s3://bucket/runs/1")      # a thread: uploads what is new, and tries again
    uploader.flush(600)                                     # SaveError if the store does not take it in time
    uploader.close()

A checkpoint goes first by its data, then its index, then TensorFlow's list, the file `checkpoint`; then those that the
list no longer has are removed, the index first.  So a reader of the list finds whole checkpoints, wherever the chief
was killed.  Training never waits for the store: the checkpoints that come while one is uploaded are passed over, except
the newest.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator

from ps_train.base import side_work
from ps_train.base.console import human_secs
from ps_train.base.errors import RefusedError, SaveError, one_line
from ps_train.base.remote_files import RemoteDirectory
from ps_train.base.sending import Sender
from ps_train.base.whole_file import NEW
from ps_train.cluster.membership.directory_lock import NAME as LOCK_FILE
from ps_train.cluster.membership.run_status import STATUS_FILE
from ps_train.engine.run_directory.kept_checkpoints import KeptCheckpoints
from ps_train.engine.run_directory.run_checkpoints import LIST, NAME, list_text
from ps_train.engine.run_directory.run_files import EVAL_DIRECTORY, ignored_line, is_of_run, link_checkpoint, set_aside
from ps_train.engine.run_directory.run_record import GENERATIONS, RUN_ID
from ps_train.engine.run_directory.spool import (
    STATE,
    bring_evaluations,
    checkpoint_files,
    listed_in,
    read_file,
    read_state,
    step_of,
    version_of,
    write_state,
)

log = logging.getLogger(__name__)

_LOOK_SECS = 1.0
_EVENTS_SECS, _EVALUATIONS_SECS = 60.0, 10.0
"""Seconds between two uploads of an event file, and between two looks for the evaluator's."""

_RETRY_SECS = 2.0, 10.0
_SLOW_SECS = 30.0
"""Seconds after which an upload that does not end is told."""

_PINNED = ".pinned"
_NOT_UPLOADED = (LIST, STATE)


class ChangedFiles:
    """The files of a spool beside the checkpoints.

    Args:
      remote: the directory on the store.
      is_chosen: returns True for the name of a file that is uploaded.
    """

    def __init__(self, remote: RemoteDirectory, spool: str, is_chosen: Callable[[str], bool]) -> None:
        self._remote, self._spool, self._is_chosen = remote, spool, is_chosen
        self._known: dict[str, tuple[int, int]] = {}
        self._digests: dict[str, bytes] = {}
        self._times: dict[str, float] = {}

    def upload(self, everything: bool, first: tuple[str, ...] = (), only_first: bool = False) -> None:
        """Uploads the files that have changed, the status of the run as the last.

        Args:
          everything: also event files, which otherwise wait for a minute.
          first: the files to begin with.
          only_first: upload no others.
        """
        names = [name for name in self._names() if not only_first or name in first]
        for name in sorted(names, key=lambda name: (name not in first, name == STATUS_FILE, name)):
            with contextlib.suppress(FileNotFoundError):  # replaced or removed at this moment
                self._upload_if_changed(name, everything)

    def _upload_if_changed(self, name: str, everything: bool) -> None:
        path = os.path.join(self._spool, name)
        found = os.stat(path)
        version = (found.st_mtime_ns, found.st_size)
        is_events = "tfevents" in name
        if self._known.get(name) == version:
            return
        if is_events and not everything and time.monotonic() - self._times.get(name, 0.0) < _EVENTS_SECS:
            return
        if is_events:
            self._remote.upload(path, name)
        else:
            with open(path, "rb") as file:
                data = file.read()
            digest = hashlib.sha256(data).digest()
            if self._digests.get(name) != digest:  # the status is touched every second
                self._remote.write(name, data)
                self._digests[name] = digest
        self._known[name], self._times[name] = version, time.monotonic()

    def _names(self) -> Iterator[str]:
        for folder, folders, names in os.walk(self._spool):
            relative = os.path.relpath(folder, self._spool)
            folders[:] = [name for name in folders if not name.startswith((".", "writer_probe-", NAME))]
            for name in names:
                whole = os.path.normpath(os.path.join(relative, name))
                if not name.endswith(NEW) and self._is_chosen(whole):
                    yield whole

    def forget(self) -> None:
        """Takes no file for uploaded."""
        self._known, self._digests, self._times = {}, {}, {}


def evaluator_round(remote: RemoteDirectory, spool: str) -> Callable[[bool], None]:
    """Returns what uploads the evaluator's event files that have grown; an evaluation is rare, so they do not wait."""
    files = ChangedFiles(remote, spool, lambda name: name.startswith(f"{EVAL_DIRECTORY}/"))
    return lambda everything: files.upload(True)


class ChiefUploads:
    """Checkpoints and all other files of a chief; also brings the evaluator's event files down.

    Args:
      remote: the directory on the store.
      spool: the chief's spool.
      rule: which checkpoints are kept there.
      is_held: returns True while this process holds the lock of the directory.
    """

    def __init__(self, remote: RemoteDirectory, spool: str, rule: KeptCheckpoints, is_held: Callable[[], bool]) -> None:
        self._remote, self._spool, self._rule, self._is_held = remote, spool, rule, is_held
        self._files = ChangedFiles(remote, spool, _is_of_chief)
        self._kept, self._versions = read_state(spool)
        self._lock, self._next_look = threading.Lock(), 0.0

    def round(self, everything: bool) -> None:
        """Uploads what is new.

        Raises:
          RefusedError: another process has taken the directory over.
          OSError, or an exception of the file system's package.
        """
        with self._lock:
            self._files.upload(everything, (RUN_ID, GENERATIONS), only_first=True)  # they judge the checkpoints
            self._upload_checkpoint()
            self._files.upload(everything)
            if time.monotonic() >= self._next_look:
                bring_evaluations(self._remote, self._spool)
                self._next_look = time.monotonic() + _EVALUATIONS_SECS

    def set_aside(self) -> str:
        """Moves all files of an ignored run into a subdirectory; returns a line that says so, "" without any.

        Raises:
          OSError, or an exception of the file system's package.
        """
        with self._lock:
            set_aside(self._spool)
            for folder in glob.glob(os.path.join(glob.escape(self._spool), "ignored-*")):
                shutil.rmtree(folder)
            self._kept, self._versions = [], {}
            self._files.forget()
            sizes = self._remote.sizes()
            steps = [step_of(name) for name in checkpoint_files(sizes)]
            taken = {name.partition("/")[0] for name in sizes}
            folder = next(name for name in (f"ignored-{n}" for n in range(1, len(taken) + 2)) if name not in taken)
            for name in sorted(sizes, key=lambda name: name != LIST):  # no reader may find a list of what goes away
                if is_of_run(name.partition("/")[0]):
                    self._remote.move(name, f"{folder}/{name}")
            write_state(self._spool, [], {})
            return ignored_line(steps, f"{self._remote.url}/{folder}") if steps else ""

    def _upload_checkpoint(self) -> None:
        """Uploads the newest checkpoint, and before it those that are needed and are not there."""
        names = listed_in(read_file(os.path.join(self._spool, LIST)))
        needed = self._rule.needed(self._spool)
        for name in reversed([name for name in names[1:] if step_of(name) in needed and name not in self._kept]):
            self._upload_one(name)
        if names:
            self._upload_one(names[0])

    def _upload_one(self, name: str) -> None:
        version, before = version_of(self._spool, name), self._kept
        if not version or (before[:1] == [name] and self._versions.get(name) == version):
            return
        if self._versions.get(name) != version:
            if name in before and len(before) > 1:  # a step that was rolled back is made again
                self._write_list([one for one in before if one != name])
            with self._pinned(name) as files:
                if len(files) < len(version):
                    return  # the chief removes it at this moment: a newer one is there
                for path in files:
                    self._remote.upload(path, os.path.basename(path))
            self._versions[name] = version
        steps = sorted({step for one in (name, *before) if (step := step_of(one)) <= step_of(name)}, reverse=True)
        self._write_list([f"{NAME}-{step}" for step in self._rule.of(steps, self._spool)])
        self._remove([one for one in before if one not in self._kept])

    def _write_list(self, names: list[str]) -> None:
        if not self._is_held():
            raise RefusedError(f"model_dir={self._remote.url} was taken over by another process")
        self._remote.write(LIST, list_text(names).encode())
        self._kept = names
        write_state(self._spool, names, self._versions)

    def _remove(self, names: list[str]) -> None:
        if not names:
            return
        found = checkpoint_files(self._remote.sizes())
        for name in names:
            self._versions.pop(name, None)
            for file in sorted(found.get(name, ()), key=lambda file: not file.endswith(".index")):
                self._remote.remove(file)

    @contextlib.contextmanager
    def _pinned(self, name: str) -> Iterator[list[str]]:
        """Yields the files of a checkpoint, the index last; they stay, though the chief may remove the checkpoint."""
        folder = os.path.join(self._spool, _PINNED)
        shutil.rmtree(folder, ignore_errors=True)
        files: list[str] = []
        try:
            with contextlib.suppress(FileNotFoundError):
                files = link_checkpoint(os.path.join(self._spool, name), folder)
            yield files
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Uploader:
    """The rounds of uploads in a thread, which tries again after errors of the store.

    Args:
      upload: uploads what is new; with True also what could wait.
      url: the directory on the store, for lines about it.
      on_lost: called with the error if another process has taken the directory over.
    """

    def __init__(
        self, upload: Callable[[bool], None], url: str, on_lost: Callable[[RefusedError], None] = log.error
    ) -> None:
        self._upload, self._url, self.on_lost = upload, url, on_lost
        self._failing_since: float | None = None
        self._failure = ""
        self._lost: RefusedError | None = None
        self._sender = Sender("uploads", self._send, self._has_failed, _LOOK_SECS, _RETRY_SECS)
        self._sender.start()

    def flush(self, within_secs: float) -> None:
        """Waits until all that is in the spool now is on the store.

        Raises:
          SaveError: the store has not taken it in that time.
          RefusedError: another process has taken the directory over.
        """
        if self._sender.flush(within_secs):
            return
        if self._lost is not None:
            raise self._lost
        cause = self._failure or "it is slow"
        raise SaveError(f"{self._url} has not taken the last files within {human_secs(within_secs)} ({cause})")

    def close(self) -> None:
        """Begins no further round."""
        self._sender.close()

    def _send(self, is_asked: bool) -> None:
        with self._told_if_slow():
            self._upload(is_asked)
        if self._failing_since is not None:
            secs = time.monotonic() - self._failing_since
            log.info("model_dir=%s takes files again, after %.0fs", self._url, secs)
        self._failing_since, self._failure = None, ""

    def _has_failed(self, error: Exception) -> bool:
        if isinstance(error, RefusedError):
            self._lost = error
            self.on_lost(error)
            return False
        self._note_failure(one_line(error) or type(error).__name__)
        return True

    @contextlib.contextmanager
    def _told_if_slow(self) -> Iterator[None]:
        timer = threading.Timer(_SLOW_SECS, lambda: self._note_failure(f"an upload takes more than {_SLOW_SECS:g}s"))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _note_failure(self, reason: str) -> None:
        self._failure = reason
        side_work.failed("uploads", reason, is_told=True)
        if self._failing_since is None:
            self._failing_since = time.monotonic()
            log.warning(
                "model_dir=%s takes no files (%s): checkpoints stay on this machine until it does; training continues",
                self._url, reason,
            )  # fmt: skip


def _is_of_chief(name: str) -> bool:
    top = name.partition("/")[0]
    return not (name in _NOT_UPLOADED or top.startswith((f"{NAME}-", LOCK_FILE, ".")) or top == EVAL_DIRECTORY)
