"""A parameter server: serves its part of the variables until the job is over, then exits by itself.

It never calls `Server.join()`, which never returns: it looks at its own board a few times a second instead.
"""

from __future__ import annotations

import logging
import time

from ps_train.cluster.server import start_server
from ps_train.cluster.spec import Cluster
from ps_train.config.job import Job
from ps_train.config.task import Task
from ps_train.coordination import records
from ps_train.coordination.heartbeat import outcome_error, task_statuses
from ps_train.coordination.kv_store import KeyValueStore
from ps_train.coordination.liveness import LivenessTracker
from ps_train.coordination.records import LEAVING, LEFT, Outcome, StopRequest
from ps_train.errors import EXIT_DONE, LostTaskError, PsTrainError, UnreachableError, exit_code_of_signal
from ps_train.runtime import gc_control
from ps_train.runtime.console import Console
from ps_train.runtime.signals import MainThreadEvents

log = logging.getLogger(__name__)

_LOOK_SECS = 0.2
LINGER_SECS = 4.0
"""A ps stays until every training task has read the outcome on its board, but no longer than this."""


class AllWorkersGoneDetector:
    """Has everybody gone?  Pure: fed with the board's seats and the time."""

    def __init__(self, job: Job, now: float) -> None:
        self._job, self._tracker = job, LivenessTracker()
        self._tracker.silent_secs("workers", [], now)

    def update(self, items: dict[str, str], now: float) -> PsTrainError | None:
        """An error when no worker came in time, or when all that came have fallen silent."""
        beats = sorted((status.process_id, status.heartbeat) for status in task_statuses(items))
        quiet = self._tracker.silent_secs("workers", beats, now)
        if not beats and quiet > self._job.startup_timeout_secs:
            return UnreachableError(f"no worker has come within {quiet:.0f}s (startup_timeout_secs)")
        if beats and quiet > self._job.recovery_secs:
            return LostTaskError(f"no worker has said anything for {quiet:.0f}s (recovery_secs): all of them are gone")
        return None


def run(job: Job, task: Task, console: Console) -> int:
    """Serves; returns the exit code when the job is done or was stopped, raises when it failed."""
    address = Cluster.of(job).address(task)
    server = start_server(address, job)
    attention = MainThreadEvents()
    board = KeyValueStore(server.target, f"{task} ({address})")
    board.set(records.IDENTITY, records.new_identity(str(task), job.shared_fields()).to_json())
    log.info("%s serves on %s", task, address)
    gc_control.resume()
    silence, told = AllWorkersGoneDetector(job, time.monotonic()), False
    items: dict[str, str] = {}
    while True:
        items = _read_records(board, items)
        if records.OUTCOME in items:
            _wait_for_acknowledgements(board, {str(replica) for replica in Cluster.of(job).replicas()})
            return _end(Outcome.from_json(items[records.OUTCOME]))
        if attention.signum is not None and not told:
            told = _ask_to_stop(board, StopRequest(str(task), attention.signum))
        if attention.signum is not None and not task_statuses(items):
            return exit_code_of_signal(attention.signum)  # nobody is there who could save
        failure = silence.update(items, time.monotonic())
        if failure is not None:
            raise failure
        time.sleep(_LOOK_SECS)


def _read_records(board: KeyValueStore, before: dict[str, str]) -> dict[str, str]:
    """What is on the board.  While this process itself is too busy to answer, what was there before still counts."""
    try:
        return board.items()
    except LostTaskError as error:
        log.debug("%s", error)
        return before


def _ask_to_stop(board: KeyValueStore, stop: StopRequest) -> bool:
    """Whether it could be written."""
    try:
        board.set(records.STOP, stop.to_json())
    except LostTaskError as error:
        log.debug("%s", error)
        return False
    log.warning("%s got signal %d; asking the chief to save and stop", stop.by, stop.signum)
    return True


def _wait_for_acknowledgements(board: KeyValueStore, replicas: set[str]) -> None:
    deadline = time.monotonic() + LINGER_SECS
    items: dict[str, str] = {}
    while time.monotonic() < deadline:
        items = _read_records(board, items)
        seats = task_statuses(items)
        there = replicas | {seat.task for seat in seats}
        if there <= {seat.task for seat in seats if seat.state in (LEAVING, LEFT)}:
            return
        time.sleep(_LOOK_SECS)


def _end(outcome: Outcome) -> int:
    if outcome.kind == "failed":
        raise outcome_error(outcome)
    return exit_code_of_signal(outcome.signum) if outcome.kind == "stopped" else EXIT_DONE
