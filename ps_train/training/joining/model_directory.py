"""The model directory of a task: a local one, or the spool of one on an object store.

with directory_of_chief(job, task) as directory:
directory.path                  # where the chief writes
directory.flush(600)            # SaveError unless all of it is at job.model_dir then
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from ps_train.base.console import human_secs
from ps_train.base.errors import ConfigError, PsTrainError, RefusedError, SaveError, UnreachableError, one_line
from ps_train.base.remote_files import RemoteDirectory, may_pass, scheme_of
from ps_train.cluster.membership.directory_lock import DirectoryLock, held_directory, held_remote_directory
from ps_train.cluster.sessions.abandonable import run_within
from ps_train.config.job import Job, Task
from ps_train.config.job_values import described
from ps_train.engine.checkpoint.files import prepare_directory
from ps_train.engine.run_directory.kept_checkpoints import KeptCheckpoints
from ps_train.engine.run_directory.run_files import set_aside
from ps_train.engine.run_directory.spool import SpoolReader, evaluator_spool, open_chief_spool, remove_leftovers
from ps_train.engine.run_directory.uploads import ChiefUploads, Uploader, evaluator_round

log = logging.getLogger(__name__)

T = TypeVar("T")

_PAUSE_SECS, _CALL_SECS = 2.0, 20.0
"""Seconds between two calls to a store that does not answer, and for the first call to be answered."""

_LAST_UPLOAD_SECS, _BRIEF_UPLOAD_SECS = 60.0, 3.0
"""Seconds for the last files of a job that is done, and of one that failed or was stopped."""


@dataclasses.dataclass(frozen=True)
class ModelDirectory:
    """The model directory of a chief.

    Attributes:
      path: the local directory in which the chief works.
      name: the directory as messages name it.
      uploads: the uploads from `path`; None if it is the model directory itself.
      uploader: their thread.
    """

    path: str
    name: str
    lock: DirectoryLock
    uploads: ChiefUploads | None = None
    uploader: Uploader | None = None

    def flush(self, within_secs: float) -> None:
        """Waits until all files are in the model directory.

        Raises:
          SaveError: the store has not taken them in that time.
        """
        if self.uploader is None:
            return
        try:
            self.uploader.flush(within_secs)
        except SaveError as error:
            raise SaveError(
                f"{error}: they are in {self.path}, and a job on this machine with the same --model_dir resumes "
                "from there",
                page="checkpoints#object-stores",
            ) from None

    def watch(self, on_lost: Callable[[RefusedError], None]) -> None:
        """Sets the function that is called, from another thread, if another process takes the directory over."""
        self.lock.watch(on_lost)
        if self.uploader is not None:
            self.uploader.on_lost = on_lost

    def set_aside(self) -> str:
        """Moves the files of an ignored run away; returns a line that says so, "" without any."""
        return set_aside(self.path) if self.uploads is None else self.uploads.set_aside()


def check_model_dir(job: Job) -> None:
    """Checks before training that a model directory on an object store can be written.

    Raises:
      ConfigError: it cannot, for a reason that stays.
    """
    if scheme_of(job.model_dir):
        with contextlib.suppress(UnreachableError):  # the chief waits for it
            _check_writable(job, RemoteDirectory(job.model_dir), 0.0)


@contextlib.contextmanager
def directory_of_chief(job: Job, task: Task) -> Iterator[ModelDirectory]:
    """Holds the model directory of a chief, where this process alone writes.

    Raises:
      ConfigError: it cannot be written to.
      RefusedError: another process holds it.
      UnreachableError: its store does not answer within startup_timeout_secs.
    """
    if not scheme_of(job.model_dir):
        with held_directory(prepare_directory(job.model_dir), str(task), job.heartbeat_timeout_secs) as lock:
            yield ModelDirectory(lock.directory, lock.directory, lock)
        return
    remote = RemoteDirectory(job.model_dir)
    answered = functools.partial(_answered, job, within_secs=job.startup_timeout_secs)
    _check_writable(job, remote, job.startup_timeout_secs)
    with contextlib.ExitStack() as stack:
        lock = answered(
            lambda: stack.enter_context(held_remote_directory(remote, str(task), job.heartbeat_timeout_secs))
        )
        answered(functools.partial(remove_leftovers, remote))
        path = answered(functools.partial(open_chief_spool, remote))
        uploads = ChiefUploads(remote, path, KeptCheckpoints(job.keep_checkpoints), lock.is_held)
        directory = ModelDirectory(path, remote.url, lock, uploads, Uploader(uploads.round, remote.url))
        assert directory.uploader is not None
        try:
            yield directory
        except BaseException:
            with contextlib.suppress(PsTrainError):
                directory.uploader.flush(_BRIEF_UPLOAD_SECS)
            raise
        finally:
            directory.uploader.close()


def end_upload(directory: ModelDirectory, is_done: bool) -> None:
    """Uploads the last files of a job, and removes the spool when all are there.

    Args:
      directory: the model directory.
      is_done: True for a job that is done; one that was stopped may not wait.

    Raises:
      SaveError: the store has not taken the files of a job that is done.
    """
    if directory.uploader is None:
        return
    try:
        directory.flush(_LAST_UPLOAD_SECS if is_done else _BRIEF_UPLOAD_SECS)
    except SaveError as error:
        if is_done:
            raise
        log.warning("%s", error)
        return
    directory.uploader.close()
    shutil.rmtree(directory.path, ignore_errors=True)


@dataclasses.dataclass(frozen=True)
class ReadDirectory:
    """The model directory of an evaluator.

    Attributes:
      path: the local directory that it reads.
      refresh: brings new files there, at most every few seconds; does nothing for a local model directory.
      uploader: the thread that uploads the evaluations; None for a local model directory.
    """

    path: str
    refresh: Callable[[], None] = lambda: None
    uploader: Uploader | None = None

    def end(self) -> None:
        """Uploads the last evaluations.

        Raises:
          SaveError: the store has not taken them.
        """
        if self.uploader is not None:
            self.uploader.flush(_LAST_UPLOAD_SECS)


@contextlib.contextmanager
def directory_of_evaluator(job: Job) -> Iterator[ReadDirectory]:
    """Opens the model directory of an evaluator, which need not exist yet.

    Raises:
      ConfigError: it cannot be read.
      UnreachableError: its store does not answer within startup_timeout_secs.
    """
    if not job.model_dir:
        raise ConfigError("model_dir is not given: an evaluator needs --model_dir, the directory of the checkpoints.")
    if not scheme_of(job.model_dir):
        yield ReadDirectory(_local_directory(job))
        return
    remote = RemoteDirectory(job.model_dir)
    _check_writable(job, remote, job.startup_timeout_secs)
    with contextlib.ExitStack() as stack:
        path = _answered(job, lambda: stack.enter_context(evaluator_spool(remote)), job.startup_timeout_secs)
        uploader = Uploader(evaluator_round(remote, path), remote.url)
        stack.callback(uploader.close)
        yield ReadDirectory(path, _Refresh(remote, path), uploader)


class _Refresh:
    """Brings the files of a store into an evaluator's spool, and says so once if the store does not answer."""

    def __init__(self, remote: RemoteDirectory, spool: str) -> None:
        self._reader, self._url = SpoolReader(remote, spool), remote.url
        self._due, self._is_failing = 0.0, False

    def __call__(self) -> None:
        if time.monotonic() < self._due:
            return
        try:
            self._reader.bring()
        except FileNotFoundError as error:  # the chief has removed it at this moment
            log.debug("%s", error)
        except Exception as error:  # the packages have errors of their own
            if not self._is_failing:
                log.warning("%s cannot be read (%s); trying again", self._url, one_line(error))
            self._is_failing = True
        else:
            self._is_failing = False
        self._due = time.monotonic() + _PAUSE_SECS


def _local_directory(job: Job) -> str:
    directory = os.path.abspath(job.model_dir)
    if os.path.exists(directory) and not os.path.isdir(directory):
        raise ConfigError(f"{described(job, 'model_dir')} is not a directory: give the directory of the checkpoints.")
    if os.path.exists(directory) and not os.access(directory, os.R_OK | os.X_OK):
        raise ConfigError(f"{described(job, 'model_dir')} cannot be read: use the directory of the checkpoints.")
    return directory


def _check_writable(job: Job, remote: RemoteDirectory, within_secs: float) -> None:
    """Checks that the store of model_dir takes files; the packages may wait for minutes for a store that hangs.

    Raises:
      ConfigError, UnreachableError: as `_answered`.
    """
    call_secs = min(within_secs or _CALL_SECS, _CALL_SECS)

    def check() -> None:
        try:
            run_within(remote.check_writable, call_secs, lambda: False)
        except TimeoutError:
            raise TimeoutError(f"no answer within {human_secs(call_secs)}") from None

    _answered(job, check, within_secs)


def _answered(job: Job, call: Callable[[], T], within_secs: float) -> T:
    """Makes a call to the store of model_dir again until it succeeds.

    Raises:
      ConfigError: the store refuses it.
      UnreachableError: it has not succeeded in that time.
    """
    deadline = time.monotonic() + within_secs
    while True:
        try:
            return call()
        except PsTrainError:
            raise
        except Exception as error:  # the packages have errors of their own
            reason = one_line(error) or type(error).__name__
            if not may_pass(error):
                raise ConfigError(
                    f"{described(job, 'model_dir')} cannot be used ({reason}): check the address, the rights and the "
                    "credentials."
                ) from None
            if time.monotonic() >= deadline:
                raise UnreachableError(f"{described(job, 'model_dir')} does not answer ({reason})") from None
            time.sleep(_PAUSE_SECS)
