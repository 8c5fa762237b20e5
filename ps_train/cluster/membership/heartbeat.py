"""The heartbeat of a training task: it renews the task's lease twice a second and reads the records of other tasks.

It also reads outcome and stop records and finds tasks that have fallen silent.  `FailureDetector`, which is pure,
decides which silence ends the task.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ps_train.base.errors import JobFailedError, LostTaskError, PsTrainError, RefusedError, UnreachableError
from ps_train.base.lifecycle import event
from ps_train.base.signals import MainThreadEvents
from ps_train.cluster.addresses.resolver import ClusterResolver
from ps_train.cluster.membership import records
from ps_train.cluster.membership.connect import NotReadyError, check_identity, check_reachable
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.lease import Lease
from ps_train.cluster.membership.liveness import LivenessTracker
from ps_train.cluster.membership.ps_liveness import PsLiveness
from ps_train.cluster.membership.records import Identity, ModelReady, Outcome, StopRequest, TaskState, TaskStatus
from ps_train.config.job import Job

log = logging.getLogger(__name__)

HEARTBEAT_SECS = 0.5
_SILENT_SECS = 1.5
"""Seconds for which a last record waits for a ps that does not answer."""


class JobEnded(Exception):
    """Signals that the chief has declared the outcome; not an error."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.kind)
        self.outcome = outcome


def outcome_error(outcome: Outcome) -> PsTrainError:
    """Returns the error for a failed job; its exit code is 2 where the configuration was at fault."""
    error = JobFailedError(f"the job failed: {outcome.by}: {outcome.cause}")
    if outcome.config:
        error.exit_code = 2
    return error


class PeerMonitor(Protocol):
    """Receives the task statuses that the heartbeat reads from the store of ps 0."""

    def update(self, statuses: Iterable[TaskStatus], now: float) -> PsTrainError | None:
        """Returns an error that ends the job for this task; None while there is none.

        Args:
          statuses: of all training tasks that have a record.
          now: seconds of a monotonic clock.
        """

    def extend_deadlines(self, secs: float) -> None:
        """Leaves out `secs` in which no status could be read because ps 0 did not answer."""


class FailureDetector:
    """Finds tasks that have fallen silent.  Pure: the caller passes the statuses read and the time.

    Args:
      needed: the tasks without which this one cannot go on, each with the seconds of silence it is allowed.
      join_secs: seconds that a needed task may take to appear.
      now: seconds of a monotonic clock.
    """

    def __init__(self, needed: Mapping[str, float], join_secs: float, now: float) -> None:
        self._needed, self._join_secs, self._start = needed, join_secs, now
        self._tracker, self._known = LivenessTracker(), dict[str, TaskStatus]()

    def extend_deadlines(self, secs: float) -> None:
        """Leaves out `secs` in which no status could be read."""
        self._start += secs
        self._tracker.extend(secs)

    def update(self, statuses: Iterable[TaskStatus], now: float) -> PsTrainError | None:
        """Returns an error that names the first task missing or silent for too long; None if there is none."""
        self._known.update({status.task: status for status in statuses})  # a restarted ps 0 has no records at first
        for task, allowed in self._needed.items():
            status = self._known.get(task)
            if status is None:
                if now - self._start > self._join_secs:
                    return UnreachableError(f"{task} has not joined within {self._join_secs:g}s (startup_timeout_secs)")
                continue
            if self._tracker.silent_secs(task, (status.process_id, status.heartbeat), now) > allowed:
                return LostTaskError(f"{status.location()} has said nothing for {allowed:g}s")
        return None


class Heartbeat:
    """Heartbeat threads of a training task.  Start it when the lease is acquired; `set_state` changes the task's state.

    Each store has its own thread, so a ps that does not answer does not delay the others.

    Args:
      stores: one for each ps, in order.
      resolver: gives the current addresses of the ps.
      lease: the acquired lease of this task.
      events: wakes the main thread.
      job: the job's settings.
      monitor: receives the statuses read from ps 0.

    Attributes:
      ps_liveness: the liveness, process and generation of each ps.
      stop_request: the first request to end the job early; None until there is one.
      observe: called with the index of a ps and its records whenever they were read.
      is_trained: True once the chief has ended the training, so that no further steps are made.
    """

    def __init__(
        self,
        stores: list[KeyValueStore],
        resolver: ClusterResolver,
        lease: Lease,
        events: MainThreadEvents,
        job: Job,
        monitor: PeerMonitor,
    ) -> None:
        self._stores, self._lease, self._events, self._job, self._monitor = stores, lease, events, job, monitor
        self._resolver = resolver
        self._write_locks = [threading.Lock() for _ in stores]
        self._leaving: TaskState | None = None  # the last state; the lease may not have it yet while ps 0 is silent
        self.stop_request: StopRequest | None = None
        self.is_trained = False
        self.observe: Callable[[int, Mapping[str, str]], None] = lambda index, found: None
        self._stopped = threading.Event()
        self.ps_liveness = PsLiveness(
            [store.name for store in stores], [store.incarnation for store in stores], job.recovery_timeout_secs
        )

    @property
    def process_id(self) -> str:
        """A text unique to this process."""
        return self._lease.status.process_id

    def start(self) -> None:
        """Starts one daemon thread for each store."""
        for index, store in enumerate(self._stores):
            threading.Thread(
                target=self._beat_until_stopped, args=[index], daemon=True, name=f"heartbeat {store.name}"
            ).start()

    def stop(self) -> None:
        """Ends the threads, for a process that goes on after its task."""
        self._stopped.set()

    def set_state(self, state: TaskState | None = None) -> None:
        """Renews the lease on ps 0 and writes the task's state; None keeps the present one.

        Raises:
          RefusedError: another process has taken over the lease.
        """
        if not self._lease.renew(state):
            raise RefusedError(f"{self._lease.status.task} has lost its lease: another process has taken it over.")

    def tell_state(self, state: TaskState) -> bool:
        """Sets the state as `set_state` does; returns False instead if ps 0 is lost."""
        try:
            self.set_state(state)
        except LostTaskError:
            return False
        return True

    def publish(self, index: int) -> None:
        """Writes a heartbeat to the store of ps `index`, with the task's state at the time of writing."""
        if index == 0:
            return self.set_state()
        with self._write_locks[index]:  # or an older state could be written after a newer one
            status = self._lease.status
            published = dataclasses.replace(status, state=self._leaving or status.state, telemetry={})
            self._stores[index].set(records.task_key(status.task), published.to_json())

    def announce_leaving(self, state: TaskState = TaskState.LEAVING) -> None:
        """Writes to every ps that this task leaves, so that no ps stays up for it."""
        self._leaving = state
        self.on_each_ps(lambda index: self._lease.renew(state) if index == 0 else self.publish(index))

    def on_each_ps(self, write: Callable[[int], object]) -> None:
        """Calls `write(index)` for all ps at once; waits at most 1.5 s for those known to be silent."""
        threads = [
            threading.Thread(target=_try_write, args=[write, index], daemon=True, name="write")
            for index in range(len(self._stores))
        ]
        deadline = time.monotonic() + _SILENT_SECS
        for thread in threads:
            thread.start()
        for index in sorted(range(len(threads)), key=self.ps_liveness.is_silent):
            left = max(0.0, deadline - time.monotonic())
            threads[index].join(left if self.ps_liveness.is_silent(index) else None)

    def _beat_until_stopped(self, index: int) -> None:
        store, answered = self._stores[index], time.monotonic()
        while not self._stopped.is_set():
            self._update_address(index)
            asked = time.monotonic()
            try:
                self.publish(index)
                found = store.items()
                if index == 0 and self.ps_liveness.is_silent(0):
                    self._monitor.extend_deadlines(asked - answered)
                self._read_records(index, found, asked)
                self._react(found, from_first_ps=index == 0)
                self.observe(index, found)
                answered = time.monotonic()
            except RefusedError as error:
                return self._events.set_terminal_error(error)
            except LostTaskError as error:
                if not self._probe(index):
                    self._record_silence(index, str(error).removeprefix(store.name + " "))
                if time.monotonic() - answered > self._job.recovery_timeout_secs:
                    secs = f"{self._job.recovery_timeout_secs:g}s (recovery_timeout_secs)"
                    return self._events.set_terminal_error(LostTaskError(f"lost {store.name} for {secs}: {error}"))
            self._stopped.wait(HEARTBEAT_SECS)
        return None

    def _update_address(self, index: int) -> None:
        """Reconnects the store if the ps has moved to another address."""
        address, store = self._resolver.current().ps[index], self._stores[index]
        name = f"ps:{index} ({address})"
        if name != store.name:
            store.reconnect_to(address.target, name)
            _log(self.ps_liveness.record_move(index, name), "restarted", index)

    def probe_ps(self) -> None:
        """Finds out at once which ps no longer accept connections.  Called when a ps has just been lost."""
        for index in range(len(self._stores)):
            self._probe(index)

    def _probe(self, index: int) -> bool:
        """Returns whether the ps accepts no connection; reconnects if its name has another IP address now."""
        address, store = self._resolver.current().ps[index], self._stores[index]
        try:
            known, peer = store.peer, check_reachable(address)
        except NotReadyError as missing:
            self._record_silence(index, str(missing))
            return True
        if peer != known:  # without power the old host closes no connection, and calls there would never end
            store.peer = peer
            store.reconnect_to(address.target, store.name)
            _log(f"{store.name} has the IP address {peer} now" if known else None, "restarted", index)
        return False

    def _record_silence(self, index: int, cause: str) -> None:
        line = self.ps_liveness.record_silence(index, cause)
        _log(line if self._events.terminal_error is None else None, "lost", index)

    def _read_records(self, index: int, found: Mapping[str, str], asked: float) -> None:
        """Records which process answered, and its generation."""
        store = self._stores[index]
        if records.IDENTITY not in found:
            raise LostTaskError(f"{store.name} has not published its identity yet")
        identity = Identity.from_json(found[records.IDENTITY])
        check_identity(identity, f"ps:{index}", store.name, self._lease.status.task, self._job.shared_fields())
        generation = ModelReady.from_json(found[records.READY]).generation if records.READY in found else ""
        known = self.ps_liveness.incarnations()[index]
        kind = "joined" if identity.incarnation == known else "restarted"
        _log(self.ps_liveness.record_answer(index, identity.incarnation, generation, asked), kind, index)

    def _react(self, found: Mapping[str, str], from_first_ps: bool) -> None:
        if records.OUTCOME in found:
            self._events.set_terminal_error(JobEnded(Outcome.from_json(found[records.OUTCOME])))
        if records.STOP in found and self.stop_request is None:
            self.stop_request = StopRequest.from_json(found[records.STOP])
            self._events.wake()
        if from_first_ps:
            self.is_trained = self.is_trained or records.TRAINED in found
            error = self._monitor.update(task_statuses(found), time.monotonic())
            if error is not None:
                self._events.set_terminal_error(error)


def _try_write(write: Callable[[int], object], index: int) -> None:
    try:
        write(index)
    except LostTaskError as error:
        log.info("a record could not be written: %s", error)


def _log(line: str | None, kind: str, index: int) -> None:
    if line is not None:
        log.warning("%s", line, extra=event(kind, f"ps:{index}"))


def task_statuses(items: Mapping[str, str]) -> list[TaskStatus]:
    """Returns the status of every training task that has a record in a store.

    Args:
      items: the keys and values of the store.
    """
    return [TaskStatus.from_json(text) for key, text in items.items() if key.startswith(records.task_key(""))]
