"""Run status: a file in model_dir from which an evaluator, which is outside the cluster, learns the state of the run.

    file = StatusFile(directory, holder, max_steps=2000)          # in the chief
    file.begin()                                                  # status.json is "running" and touched every second
    file.end(RunState.STOPPED, signum=15)

    monitor = RunMonitor(job, time.monotonic())                   # in the evaluator
    monitor.update(read_status(directory), time.monotonic())      # None: wait; a RunEnd: how the run ended

A change of the file is a heartbeat, so clocks are not compared between machines.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import logging
import os
import threading

from ps_train.base import side_work
from ps_train.base.errors import (
    EXIT_CONFIG,
    EXIT_DONE,
    EXIT_FAILED,
    JobFailedError,
    LostTaskError,
    PsTrainError,
    UnreachableError,
    exit_code_of_signal,
)
from ps_train.base.life_sign import LastChange, LifeSign
from ps_train.base.untrusted import as_record, parse_json, read_text_and_stat
from ps_train.base.whole_file import write_whole
from ps_train.config.job import Job

log = logging.getLogger(__name__)

HEARTBEAT_SECS = 1.0
STATUS_FILE = "status.json"


class RunState(str, enum.Enum):
    """A state of a run.  Members equal their texts, which is what status.json holds."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True)
class Status:
    """The contents of status.json.

    Attributes:
      state: a `RunState`; an unknown text in the file is kept, and counts as an end without failure.
      holder: unique to the chief's process.
      max_steps: the global step at which the run should end.
      signum: the signal that stopped it.
      cause: why it failed.
      config: whether the configuration was at fault, so that a restart cannot help.
    """

    state: str
    holder: str = ""
    max_steps: int = 0
    signum: int = 0
    cause: str = ""
    config: bool = False


@dataclasses.dataclass(frozen=True)
class RunEnd:
    """How a run has ended for its evaluator.

    Attributes:
      status: the last contents of status.json.
      silence: the error of a run that gives no sign of life; None where the status tells the end.
    """

    status: Status
    silence: PsTrainError | None = None

    @property
    def is_done(self) -> bool:
        """True if the run ended by itself, and well."""
        return self.silence is None and self.status.state not in (RunState.FAILED, RunState.STOPPED)

    def exit_code(self) -> int:
        """Returns 0 if the run is done, 128 + n if signal n stopped it.

        Raises:
          PsTrainError: the run failed, with the exit code of the job, or shows no sign of life.
        """
        if self.silence is not None:
            raise self.silence
        if self.status.state == RunState.FAILED:
            prefix = "the job failed: "
            error = JobFailedError(prefix + self.status.cause.removeprefix(prefix))
            error.exit_code = EXIT_CONFIG if self.status.config else EXIT_FAILED
            raise error
        return exit_code_of_signal(self.status.signum) if self.status.state == RunState.STOPPED else EXIT_DONE


@dataclasses.dataclass(frozen=True)
class StatusReading:
    """A status as read.

    Attributes:
      status: the contents of the file.
      touched: when the file was last touched, in nanoseconds of the file system's clock.
    """

    status: Status
    touched: int


def read_status(directory: str) -> StatusReading | None:
    """Returns the contents of status.json; None where it cannot be read."""
    try:
        path = os.path.join(directory, STATUS_FILE)
        text, stat = read_text_and_stat(path)  # opened again each time: a network file system then refreshes it
        return StatusReading(as_record(Status, parse_json(text)), stat.st_mtime_ns)
    except (OSError, ValueError):
        return None


class StatusFile:
    """The chief's writer of status.json.  Training goes on if the disk does not accept the file.

    Args:
      directory: model_dir.
      holder: unique to the chief's process.
      max_steps: the global step at which the run should end.
    """

    def __init__(self, directory: str, holder: str, max_steps: int) -> None:
        self._directory, self._path = directory, os.path.join(directory, STATUS_FILE)
        self._status = Status(RunState.RUNNING, holder, max_steps)
        self._write_lock = threading.Lock()
        self._sign = LifeSign("run status", self._beat, HEARTBEAT_SECS)
        self._is_stale = False

    def begin(self) -> None:
        """Writes that the run goes on, and touches the file from a thread."""
        self._write()
        self._sign.start()

    def end(self, state: RunState, signum: int = 0, cause: str = "", config: bool = False) -> None:
        """Writes how the run ended, unless another chief has taken over the directory."""
        self._sign.stop()
        found = read_status(self._directory)
        if found is None or found.status.holder == self._status.holder:
            self._status = dataclasses.replace(self._status, state=state, signum=signum, cause=cause, config=config)
            self._write()

    def _beat(self) -> None:
        if self._is_stale:  # the file may say how another run has ended
            self._write()
            return
        try:
            os.utime(self._path)  # works on a full disk
        except FileNotFoundError:
            self._write()
        except OSError as error:
            log.debug("%s cannot be touched: %s", self._path, error)

    def _write(self) -> None:
        try:
            with self._write_lock:
                write_whole(self._path, json.dumps(dataclasses.asdict(self._status)) + "\n")
            self._is_stale = False
            side_work.works(STATUS_FILE)
        except OSError as error:
            self._is_stale = True
            side_work.failed(STATUS_FILE, f"it cannot be written ({error.strerror}): an evaluator waits for it")


class RunMonitor:
    """Decides when an evaluator has nothing left to wait for.  Pure: the caller passes the readings and the time.

    A recorded end that the evaluator finds at its start may belong to a run that is now resumed.  The evaluator then
    waits startup_timeout_secs for its chief.  After a failure that a restart may help, it waits recovery_timeout_secs.

    Args:
      job: the evaluator's settings.
      now: seconds of a monotonic clock.
      may_start_late: True to wait for the chief without an end.
    """

    def __init__(self, job: Job, now: float, may_start_late: bool = False) -> None:
        self._job, self._may_start_late = job, may_start_late
        self._sign = LastChange()
        self._sign.secs(None, now)
        self._was_read = self._alive = False

    def update(self, found: StatusReading | None, now: float) -> RunEnd | None:
        """Returns how the run ended; None while it may go on."""
        if self._sign.is_new(found):
            self._alive = self._was_read
        silent_secs = self._sign.secs(found, now)
        self._was_read = True
        status = found.status if found is not None else Status(RunState.RUNNING)
        if silent_secs <= self._allowed_silence_secs(status):
            return None
        if status.state != RunState.RUNNING:
            return RunEnd(status)
        return None if self._may_start_late and not self._alive else RunEnd(status, self._silence_error())

    def _allowed_silence_secs(self, status: Status) -> float:
        if not self._alive:
            finished = status.state == RunState.DONE and status.max_steps >= self._job.max_steps
            return -1.0 if finished else self._job.startup_timeout_secs
        if status.state == RunState.RUNNING or (status.state == RunState.FAILED and not status.config):
            return self._job.recovery_timeout_secs
        return -1.0

    def _silence_error(self) -> PsTrainError:
        if not self._alive:
            secs = f"{self._job.startup_timeout_secs:g}s (startup_timeout_secs)"
            return UnreachableError(f"no chief has given a sign of life in {self._job.model_dir} within {secs}")
        secs = f"{self._job.recovery_timeout_secs:g}s (recovery_timeout_secs)"
        return LostTaskError(f"the chief has given no sign of life in {self._job.model_dir} for {secs}")
