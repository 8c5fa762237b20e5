"""Membership of a script's tasks: each one tells every ps that it lives and that it ends, and a ps learns when to end.

    membership = Membership("worker:1", ps_addresses)      # starts to send heartbeats
    membership.leave()                                     # at the end of the process

    detector = JobEndDetector(["worker:0", "worker:1"], Limits(), time.monotonic())
    detector.update(statuses_in(store.items()), time.monotonic())      # "" until the job is over

The records are in the key-value store of each ps.  The classic `Server` uses both; see `server.py`.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import enum
import functools
import logging
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from types import TracebackType

from ps_train.base.errors import JobFailedError, LostTaskError, UnreachableError
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.membership.connect import NotReadyError, check_reachable, retry_until
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.liveness import LivenessTracker
from ps_train.cluster.membership.records import Record

log = logging.getLogger(__name__)

HEARTBEAT_SECS = 0.5
_KEY = "script/"
_ANNOUNCE_SECS = 10.0
_LEAVE_SECS = 4.0
"""Maximum seconds for which the end of a process waits until every ps knows of it."""


class State(str, enum.Enum):
    """State of a task's process.  Members equal their texts, which is what a record holds."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True)
class Limits:
    """Seconds after which an absent task counts as gone.

    Attributes:
      silent_secs: a task that ran and sends no heartbeat.
      restart_secs: a task that failed and may be restarted.
      absent_secs: a task that never came, counted from the end of all others.
      startup_secs: all tasks, if none has come.
    """

    silent_secs: float = 60.0
    restart_secs: float = 10.0
    absent_secs: float = 30.0
    startup_secs: float = 600.0


@dataclasses.dataclass(frozen=True)
class ScriptStatus(Record):
    """Record of a task's process.

    Attributes:
      process_id: a text unique to the process.
      heartbeat: a number that grows while it lives.
      state: a `State`; a task with an unknown text counts as running.
    """

    process_id: str
    heartbeat: int
    state: str


def statuses_in(items: Mapping[str, str]) -> dict[str, ScriptStatus]:
    """Returns the status of each task, by its name, from all records of a store."""
    found = {key.removeprefix(_KEY): text for key, text in items.items() if key.startswith(_KEY)}
    return {task: ScriptStatus.from_json(text) for task, text in found.items()}


class JobEndDetector:
    """Detector of a job's end.  Pure: the caller passes the records and the time.

    Args:
      tasks: names of the tasks that train, `worker:0`.
      limits: for tasks that end without a word.
      now: seconds of a monotonic clock.
    """

    def __init__(self, tasks: Sequence[str], limits: Limits, now: float) -> None:
        self._tasks, self._limits, self._start = list(tasks), limits, now
        self._tracker = LivenessTracker()
        self._others_over_at: float | None = None

    def update(self, statuses: Mapping[str, ScriptStatus], now: float) -> str:
        """Returns a sentence that says why the job is over; "" while it is not.

        Args:
          statuses: of the tasks that have a record.
          now: seconds of a monotonic clock.

        Raises:
          JobFailedError: all tasks are gone, and none ended well.
          UnreachableError: no task came.
        """
        come = [task for task in self._tasks if task in statuses]
        if not come:
            if now - self._start > self._limits.startup_secs:
                raise UnreachableError(f"no worker has come within {self._limits.startup_secs:g}s.")
            return ""
        gone = {task for task in come if self.is_gone(task, statuses[task], now)}  # every heartbeat is noted
        if len(gone) < len(come):
            self._others_over_at = None
            return ""
        self._others_over_at = self._others_over_at or now
        absent = [task for task in self._tasks if task not in statuses]
        if absent and now - self._others_over_at < self._limits.absent_secs:
            return ""
        return self._outcome({task: statuses[task].state for task in come}, absent)

    def is_gone(self, task: str, status: ScriptStatus, now: float) -> bool:
        """Returns whether a task has ended, or is silent for so long that it counts as gone."""
        silent_secs = self._tracker.silent_secs(task, status, now)
        allowed: dict[str, float] = {State.ENDED: 0.0, State.FAILED: self._limits.restart_secs}
        return silent_secs >= allowed.get(status.state, self._limits.silent_secs)

    @staticmethod
    def _outcome(states: Mapping[str, str], absent: Sequence[str]) -> str:
        ended = [task for task, state in states.items() if state == State.ENDED]
        others = [f"{task} failed" for task, state in states.items() if state == State.FAILED]
        others += [f"{task} fell silent" for task, state in states.items() if state == State.RUNNING]
        others += [f"{task} never came" for task in absent]
        if not ended:
            raise JobFailedError(f"the job failed: {', '.join(others)}.")
        return f"the job is over: {', '.join([*(f'{task} ended' for task in ended), *others])}"


def wait_for_end(store: KeyValueStore, detector: JobEndDetector, pause_secs: float = 0.2) -> str:
    """Waits until a job is over; returns the sentence that says why, or raises TrainingError if the job failed."""
    while True:
        with contextlib.suppress(LostTaskError):  # this process is too busy to answer itself in time
            reason = detector.update(statuses_in(store.items()), time.monotonic())
            if reason:
                return reason
        time.sleep(pause_secs)


def ps_store(address: Address, index: int, timeout_secs: float = 3.0) -> KeyValueStore:
    """Returns a client of the store of ps `index`, whose server knows the whole cluster."""
    filters = [f"/job:ps/task:{index}"]
    return KeyValueStore(address.target, f"ps:{index} ({address})", timeout_secs, filters)


class Membership:
    """A task's announcement to every ps; each ps has a thread, so one that does not answer does not delay others.

    Args:
      task: name of the task, `worker:1`.
      ps: addresses of all ps.

    Attributes:
      task: the same.
      process_id: a text unique to this process and membership.
    """

    def __init__(self, task: str, ps: Sequence[Address]) -> None:
        self.task, self._ps = task, list(ps)
        self.process_id = uuid.uuid4().hex[:12]
        self._state = State.RUNNING
        self._left = threading.Event()
        self._stores: dict[int, KeyValueStore] = {}
        self._announced = [threading.Event() for _ in self._ps]
        self._threads = [
            threading.Thread(target=self._beat, args=[index], daemon=True, name=f"heartbeat ps:{index}")
            for index in range(len(self._ps))
        ]
        for thread in self._threads:
            thread.start()
        _note_failures()
        atexit.register(self.leave)

    @property
    def has_left(self) -> bool:
        """True once the end was announced."""
        return self._left.is_set()

    def leave(self) -> None:
        """Announces the end of this task, as failed if an exception ends the process; waits a few seconds at most."""
        atexit.unregister(self.leave)
        if self._left.is_set():
            return
        self._state = State.FAILED if _failed.is_set() else State.ENDED
        self._left.set()
        deadline = time.monotonic() + _LEAVE_SECS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def wait_for_ps(self, timeout_secs: float) -> None:
        """Waits until every ps answers; raises UnreachableError after that time, and warns every 10 s before."""
        for index, address in enumerate(self._ps):
            retry_until(functools.partial(check_reachable, address), timeout_secs, f"ps:{index} ({address})")

    def connected_store(self, index: int) -> KeyValueStore:
        """Returns another client of a ps's store, once this task has announced itself there.

        Raises:
          LostTaskError: the ps does not answer.
        """
        if not self._announced[index].wait(_ANNOUNCE_SECS):
            raise LostTaskError(f"ps:{index} ({self._ps[index]}) does not answer")
        return ps_store(self._ps[index], index)

    def _beat(self, index: int) -> None:
        """Writes heartbeats to one ps until this task leaves, and then its last state."""
        count = 0
        while not self._left.wait(HEARTBEAT_SECS if count else 0.0):
            count += 1
            self._write(index, ScriptStatus(self.process_id, count, State.RUNNING))
        self._write(index, ScriptStatus(self.process_id, count + 1, self._state))

    def _write(self, index: int, status: ScriptStatus) -> None:
        try:
            if index not in self._stores:
                check_reachable(self._ps[index])
                self._stores[index] = ps_store(self._ps[index], index)
            self._stores[index].set(f"{_KEY}{self.task}", status.to_json())
            self._announced[index].set()
        except (LostTaskError, NotReadyError) as error:
            log.debug("%s", error)


_failed = threading.Event()
_noting = threading.Lock()


def _note_failures() -> None:
    """Makes an exception that ends the process known to `leave`; `atexit` does not tell."""
    with _noting:
        if getattr(sys.excepthook, "notes_failures", False):
            return
        before = sys.excepthook

        def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
            _failed.set()
            before(kind, error, trace)

        note.notes_failures = True  # type: ignore[attr-defined]
        sys.excepthook = note
