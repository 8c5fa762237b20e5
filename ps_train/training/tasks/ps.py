"""The role of a parameter server: it serves its part of the variables until the job is over, then exits by itself.

It never calls `Server.join()`, which never returns.  It reads its own store a few times a second instead.
"""

from __future__ import annotations

import json
import logging
import time

from ps_train.base import gc_control
from ps_train.base.console import Console
from ps_train.base.errors import (
    DOCTOR_HINT,
    EXIT_DONE,
    LostTaskError,
    UnreachableError,
    exit_code_of_signal,
)
from ps_train.base.life_sign import LastChange
from ps_train.base.polling import poll_until
from ps_train.base.signals import MainThreadEvents
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership import records
from ps_train.cluster.membership.heartbeat import outcome_error
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.presence import HEARTBEAT_SECS, AbsenceLimits, JobEndDetector
from ps_train.cluster.membership.records import Outcome, OutcomeKind, StopRequest, TaskState, task_statuses
from ps_train.cluster.membership.telemetry import TelemetrySource
from ps_train.cluster.sessions.server import start_server
from ps_train.config.job import Job, Task
from ps_train.observe.status.run_end import read_result_step

log = logging.getLogger(__name__)

_LOOK_SECS = 0.2
LINGER_SECS = 4.0
"""Maximum seconds for which a ps waits until every training task has read the outcome from its store."""


class AllWorkersGoneDetector:
    """Detector of the absence of all workers; a pure function of the store's records and the time.

    Args:
      now: seconds of a monotonic clock.
    """

    def __init__(self, job: Job, now: float) -> None:
        self._job, self._heartbeats = job, LastChange()
        self._heartbeats.secs([], now)

    def update(self, items: dict[str, str], now: float) -> None:
        """Takes in what the store holds.

        Args:
          items: all records of the store.
          now: seconds of a monotonic clock.

        Raises:
          UnreachableError: no worker came in time.
          LostTaskError: all workers have fallen silent.
        """
        heartbeats = sorted(status.sign_of_life for status in task_statuses(items))
        silent_secs = self._heartbeats.secs(heartbeats, now)
        if not heartbeats and silent_secs > self._job.startup_timeout_secs:
            raise UnreachableError(
                f"no worker has come within {silent_secs:.0f}s (startup_timeout_secs); {DOCTOR_HINT}"
            )
        if heartbeats and silent_secs > self._job.recovery_timeout_secs:
            raise LostTaskError(
                f"no heartbeat of any worker for {silent_secs:.0f}s (recovery_timeout_secs): all of them are gone"
            )


class ScriptsEndDetector:
    """Detector of the end of a program that trains as a script does: its chief ends without an outcome."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._detector: JobEndDetector | None = None

    def update(self, items: dict[str, str], now: float) -> str:
        """Returns a sentence that says why the program is over; "" while it is not.

        Args:
          items: all records of the store.
          now: seconds of a monotonic clock.

        Raises:
          JobFailedError: no worker of the program ended well.
        """
        cluster, statuses = Cluster.of(self._job), task_statuses(items)
        states = {status.task: status.state for status in statuses}
        if states.get(str(cluster.chief)) not in (TaskState.LEFT, TaskState.FAILED):
            self._detector = None
            return ""
        if self._detector is None:
            limits = AbsenceLimits(silent_secs=self._job.recovery_timeout_secs)
            self._detector = JobEndDetector([str(task) for task in cluster.replicas()], limits, now)
        return self._detector.update(statuses, now)


def run(job: Job, task: Task, console: Console) -> int:
    """Serves; returns the exit code when the job is done or was stopped, raises when it failed."""
    address = Cluster.of(job).address(task)
    # Between rounds of local steps a ps has nothing to do, and workers beside it need the processors.
    server = start_server(address, job, spins=not job.has_local_steps)
    events = MainThreadEvents()
    store = KeyValueStore(server.target, f"{task} ({address})")
    store.set(records.IDENTITY, records.identity_of(job, task).to_json())
    log.info("%s serves on %s", task, address)
    gc_control.resume()
    try:
        return _serve_until_end(job, task, store, events)
    finally:
        events.close()


def _serve_until_end(job: Job, task: Task, store: KeyValueStore, events: MainThreadEvents) -> int:
    detector, scripts, stop_requested = AllWorkersGoneDetector(job, time.monotonic()), ScriptsEndDetector(job), False
    items: dict[str, str] = {}
    telemetry, due = TelemetrySource(), 0.0
    while True:
        items = read_records(store, items)
        if time.monotonic() >= due:
            due = time.monotonic() + HEARTBEAT_SECS
            send_telemetry(store, telemetry)
        if records.OUTCOME in items:
            wait_for_acknowledgements(store, {str(replica) for replica in Cluster.of(job).replicas()})
            return _end(Outcome.from_json(items[records.OUTCOME]))
        if (reason := scripts.update(items, time.monotonic())) != "":
            log.info("%s ends: %s", task, reason)
            return EXIT_DONE
        if events.signum is not None and not stop_requested:
            stop_requested = _ask_to_stop(store, StopRequest(str(task), events.signum))
        if events.signum is not None and not task_statuses(items):
            return exit_code_of_signal(events.signum)  # no worker is there to save
        try:
            detector.update(items, time.monotonic())
        except UnreachableError:
            if not is_done(job):
                raise
            log.info("%s ends: no worker has come, and %s/result.json says that the job is done", task, job.model_dir)
            return EXIT_DONE
        time.sleep(_LOOK_SECS)


def is_done(job: Job) -> bool:
    """Returns True if the result of the job is in its model directory, as far as this host has that, and complete.

    A ps that was started again after the end meets no worker, and every other ps has ended with the outcome.  A result
    below the last step does not tell: a job may go on with more data, or was stopped.
    """
    step = read_result_step(job.model_dir) if job.model_dir else None
    return step is not None and job.last_step is not None and step >= job.last_step


def send_telemetry(store: KeyValueStore, telemetry: TelemetrySource) -> None:
    """Writes the measurements of this process into its store."""
    try:
        store.set(records.TELEMETRY, json.dumps(telemetry.read()))
    except LostTaskError as error:
        log.debug("%s", error)


def read_records(store: KeyValueStore, before: dict[str, str]) -> dict[str, str]:
    """Returns the records of the store; the previous ones if this process is too busy to answer."""
    try:
        return store.items()
    except LostTaskError as error:
        log.debug("%s", error)
        return before


def _ask_to_stop(store: KeyValueStore, stop: StopRequest) -> bool:
    """Publishes a stop request; returns True if it could be written."""
    try:
        store.set(records.STOP, stop.to_json())
    except LostTaskError as error:
        log.debug("%s", error)
        return False
    log.warning("%s got signal %d; asking the chief to save and stop", stop.by, stop.signum)
    return True


def wait_for_acknowledgements(store: KeyValueStore, replicas: set[str]) -> None:
    """Waits until all replicas have read the outcome from a store, and no longer than `LINGER_SECS`.

    Args:
      store: this process's own store.
      replicas: the names of the training tasks to wait for.
    """
    items: dict[str, str] = {}

    def all_are_leaving() -> bool:
        nonlocal items
        items = read_records(store, items)
        statuses = task_statuses(items)
        expected = replicas | {status.task for status in statuses}
        return expected <= {status.task for status in statuses if status.state in (TaskState.LEAVING, TaskState.LEFT)}

    poll_until(all_are_leaving, time.monotonic() + LINGER_SECS, _LOOK_SECS)


def _end(outcome: Outcome) -> int:
    if outcome.kind == OutcomeKind.FAILED:
        raise outcome_error(outcome)
    return exit_code_of_signal(outcome.signum) if outcome.kind == OutcomeKind.STOPPED else EXIT_DONE
