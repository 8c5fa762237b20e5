"""Run status: how the run in a model_dir is doing, for an evaluator, which is not a member of the cluster.

    file = StatusFile(directory, holder, max_steps=2000)     # the chief's
    file.begin()                                             # status.json says "running", and is touched every second
    file.end("stopped", signum=15)

    watch = RunWatch(job, time.monotonic())                  # the evaluator's
    watch.look(read_status(directory), time.monotonic())     # None: wait on; a Status: the run has ended so; an error

No clocks are compared between machines: a file that changes is a heartbeat.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import threading

from ps_train.config.job import Job
from ps_train.coordination.liveness import LivenessTracker
from ps_train.errors import LostTaskError, PsTrainError, UnreachableError

log = logging.getLogger(__name__)

RUNNING, DONE, STOPPED, FAILED = "running", "done", "stopped", "failed"
BEAT_SECS = 1.0
_NAME = "status.json"


@dataclasses.dataclass(frozen=True)
class Status:
    """What status.json holds.

    Attributes:
      state: one of those above.
      holder: unique to the chief's process.
      max_steps: where the run was to end.
      signum: of the signal that stopped it.
      cause, config: why it failed, and whether a restart cannot help.
    """

    state: str
    holder: str = ""
    max_steps: int = 0
    signum: int = 0
    cause: str = ""
    config: bool = False


@dataclasses.dataclass(frozen=True)
class StatusReading:
    """A status, and when its file was last touched, by the clock of the file system."""

    status: Status
    touched: int


def read_status(directory: str) -> StatusReading | None:
    """Returns what status.json says; None where there is none that can be read."""
    try:
        with open(os.path.join(directory, _NAME)) as file:  # opened anew: a network file system then looks again
            return StatusReading(Status(**json.load(file)), os.fstat(file.fileno()).st_mtime_ns)
    except (OSError, ValueError, TypeError):
        return None


class StatusFile:
    """The chief's side.  A disk that does not take the file is no reason not to train."""

    def __init__(self, directory: str, holder: str, max_steps: int) -> None:
        self._directory, self._path = directory, os.path.join(directory, _NAME)
        self._status = Status(RUNNING, holder, max_steps)
        self._over, self._one = threading.Event(), threading.Lock()

    def begin(self) -> None:
        """Says that the run goes on, and keeps saying so from a thread."""
        self._write()
        threading.Thread(target=self._beat, daemon=True, name="run status").start()

    def end(self, state: str, signum: int = 0, cause: str = "", config: bool = False) -> None:
        """Says how the run ended, unless another chief has taken over the directory."""
        self._over.set()
        found = read_status(self._directory)
        if found is None or found.status.holder == self._status.holder:
            self._status = dataclasses.replace(self._status, state=state, signum=signum, cause=cause, config=config)
            self._write()

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECS):
            try:
                os.utime(self._path)  # works on a disk that is full
            except FileNotFoundError:
                self._write()
            except OSError as error:
                log.debug("%s cannot be touched: %s", self._path, error)

    def _write(self) -> None:
        try:
            with self._one:
                with open(self._path + ".new", "w") as file:
                    json.dump(dataclasses.asdict(self._status), file)
                    file.write("\n")
                os.replace(self._path + ".new", self._path)
        except OSError as error:
            log.debug("%s cannot be written: %s", self._path, error)


class RunMonitor:
    """Decides when an evaluator has nothing left to wait for.  Pure: fed with what was read, and the time.

    An end that was there when the evaluator started may be that of an earlier run, which is now resumed: the evaluator
    waits startup_timeout_secs for its chief.  A failure that a restart may help is followed by one within
    recovery_secs, or not at all.
    """

    def __init__(self, job: Job, now: float) -> None:
        self._job = job
        self._tracker = LivenessTracker()
        self._tracker.silent_secs("chief", None, now)
        self._last: StatusReading | None = None
        self._looked = self._alive = False

    def update(self, found: StatusReading | None, now: float) -> Status | PsTrainError | None:
        """Returns how the run ended, or an error where it gives no sign of life; None while it may go on."""
        silent_secs = self._tracker.silent_secs("chief", found, now)
        if found != self._last:
            self._last, self._alive = found, self._looked
        self._looked = True
        status = found.status if found is not None else Status(RUNNING)
        if silent_secs <= self._patience(status):
            return None
        return status if status.state != RUNNING else self._silence()

    def _patience(self, status: Status) -> float:
        if not self._alive:
            finished = status.state == DONE and status.max_steps >= self._job.max_steps
            return -1.0 if finished else self._job.startup_timeout_secs
        if status.state == RUNNING or (status.state == FAILED and not status.config):
            return self._job.recovery_secs
        return -1.0

    def _silence(self) -> PsTrainError:
        if not self._alive:
            secs = f"{self._job.startup_timeout_secs:g}s (startup_timeout_secs)"
            return UnreachableError(f"no chief has given a sign of life in {self._job.model_dir} within {secs}")
        secs = f"{self._job.recovery_secs:g}s (recovery_secs)"
        return LostTaskError(f"the chief has given no sign of life in {self._job.model_dir} for {secs}")
