"""The presence of a task on the engine: it also renews the task's lease and reads the records of other tasks.

It reads outcome and stop records and finds tasks that have fallen silent.  `FailureDetector`, which is pure,
decides which silence ends the task.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ps_train.base.console import human_secs
from ps_train.base.errors import JobFailedError, LostTaskError, PsTrainError, RefusedError, UnreachableError
from ps_train.base.lifecycle import event
from ps_train.base.signals import MainThreadEvents
from ps_train.cluster.addresses.resolver import ClusterResolver
from ps_train.cluster.membership import records
from ps_train.cluster.membership.connect import NotReadyError, check_identity, check_reachable
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.lease import Lease
from ps_train.cluster.membership.liveness import LivenessTracker
from ps_train.cluster.membership.presence import Presence
from ps_train.cluster.membership.ps_liveness import PsLiveness
from ps_train.cluster.membership.records import (
    Identity,
    ModelReady,
    Outcome,
    StopRequest,
    TaskState,
    TaskStatus,
    task_statuses,
)
from ps_train.config.job import Job

log = logging.getLogger(__name__)


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
            if self._tracker.silent_secs(task, status.sign_of_life, now) > allowed:
                return LostTaskError(f"{status.location()} has said nothing for {human_secs(allowed)}")
        return None


class Heartbeat(Presence):
    """The presence of a task on the engine.  Start it when the lease is acquired; `set_state` changes the task's state.

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
      is_trained: True once the chief has ended the training, so that no further steps are made.
      is_ending: True once the training is over for all tasks.
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
        names = [store.name for store in stores]
        super().__init__(names)
        self._stores, self._lease, self._events, self._job, self._monitor = stores, lease, events, job, monitor
        self._resolver = resolver
        self._write_locks = [threading.Lock() for _ in stores]
        self._answered = [time.monotonic()] * len(stores)
        self.stop_request: StopRequest | None = None
        self.is_trained = self.is_ending = False
        self._readers: list[Callable[[int, Mapping[str, str]], None]] = []
        self.ps_liveness = PsLiveness(names, [store.incarnation for store in stores], job.recovery_timeout_secs)

    def start(self) -> None:
        """Starts one daemon thread for each ps."""
        self._answered = [time.monotonic()] * len(self._stores)
        super().start()

    def subscribe(self, read: Callable[[int, Mapping[str, str]], None]) -> None:
        """Calls `read` from now on with the index of a ps and its records whenever they were read.

        It is called after the monitor, in the thread of that ps, which it must not keep waiting.
        """
        self._readers.append(read)

    @property
    def process_id(self) -> str:
        """A text unique to this process."""
        return self._lease.status.process_id

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
            return self.set_state(self._leaving)
        with self._write_locks[index]:  # or an older state could be written after a newer one
            status = self._lease.status
            published = dataclasses.replace(status, state=self._leaving or status.state, telemetry={})
            self._stores[index].set(records.task_key(status.task), published.to_json())

    def beat(self, index: int) -> None:
        """Writes a heartbeat, and reads what the ps and the other tasks have written."""
        self._update_address(index)
        asked = time.monotonic()
        self.publish(index)
        found = self._stores[index].items()
        if index == 0 and self.ps_liveness.is_silent(0):
            self._monitor.extend_deadlines(asked - self._answered[0])
        self._read_records(index, found, asked)
        self._react(found, from_first_ps=index == 0)
        for read in self._readers:
            read(index, found)
        self._answered[index] = time.monotonic()

    def has_failed(self, index: int, error: PsTrainError) -> bool:
        """Records a silence; ends the task if the silence is too long, or if it was refused."""
        if not isinstance(error, LostTaskError):
            self._events.set_terminal_error(error)
            return True
        store = self._stores[index]
        if not self._probe(index):
            self._record_silence(index, str(error).removeprefix(store.name + " "))
        if time.monotonic() - self._answered[index] <= self._job.recovery_timeout_secs:
            return False
        secs = f"{self._job.recovery_timeout_secs:g}s (recovery_timeout_secs)"
        self._events.set_terminal_error(LostTaskError(f"lost {store.name} for {secs}: {error}"))
        return True

    def is_silent(self, index: int) -> bool:
        """Returns True if a ps does not answer."""
        return self.ps_liveness.is_silent(index)

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
            self.is_ending = records.ENDING in found
            error = self._monitor.update(task_statuses(found), time.monotonic())
            if error is not None:
                self._events.set_terminal_error(error)


def _log(line: str | None, kind: str, index: int) -> None:
    if line is not None:
        log.warning("%s", line, extra=event(kind, f"ps:{index}"))
