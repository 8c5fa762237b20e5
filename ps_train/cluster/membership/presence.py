"""Presence of a training task: it tells every ps twice a second that it lives, and at its end how it ended.

    presence = ScriptPresence("worker:1", ps_addresses, AbsenceLimits())      # of a script's process; it begins at once
    presence.leave()                                                   # at the end of the process

    detector = JobEndDetector(["worker:0", "worker:1"], AbsenceLimits(), time.monotonic())
    detector.update(task_statuses(store.items()), time.monotonic())      # "" until the job is over

`heartbeat.py` has the presence of the engine's own tasks, which also read what the others have written.
"""

from __future__ import annotations

import abc
import atexit
import dataclasses
import functools
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType

from ps_train.base.console import human_secs
from ps_train.base.errors import JobFailedError, LostTaskError, PsTrainError, UnreachableError
from ps_train.base.life_sign import LifeSign
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.membership.connect import NotReadyError, check_reachable, retry_until
from ps_train.cluster.membership.kv_store import BOARD, KeyValueStore
from ps_train.cluster.membership.liveness import LivenessTracker
from ps_train.cluster.membership.records import TaskState, TaskStatus, new_task_status, task_key, task_statuses

log = logging.getLogger(__name__)

HEARTBEAT_SECS = 0.5
_ANNOUNCE_SECS = 10.0
_SILENT_SECS = 1.5
"""Seconds for which a last record waits for a ps that does not answer."""


class Presence(abc.ABC):
    """The signs of life of this process's task.  Each ps has a thread, so a silent one does not delay the others.

    Args:
      names: how messages name each ps, in order.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._silent = set(range(len(names)))
        self._leaving: TaskState | None = None
        self._signs = [
            LifeSign(f"heartbeat {name}", functools.partial(self._try_beat, index), HEARTBEAT_SECS, first_secs=0.0)
            for index, name in enumerate(names)
        ]

    def start(self) -> None:
        """Starts one daemon thread for each ps."""
        for sign in self._signs:
            sign.start()

    def stop(self) -> None:
        """Ends the threads, for a process that goes on after its task."""
        for sign in self._signs:
            sign.stop()

    @abc.abstractmethod
    def publish(self, index: int) -> None:
        """Writes a heartbeat to the store of a ps, with the state at the time of writing; raises LostTaskError."""

    def beat(self, index: int) -> None:
        """Does what is done twice a second for a ps; raises LostTaskError if it does not answer."""
        self.publish(index)

    def has_failed(self, index: int, error: PsTrainError) -> bool:
        """Hears why a beat failed; returns True if that ps gets no other."""
        log.debug("%s", error)
        return False

    def is_silent(self, index: int) -> bool:
        """Returns True if a ps has not answered the last beat."""
        return index in self._silent

    @property
    def has_left(self) -> bool:
        """True once the end was announced."""
        return self._leaving is not None

    def announce_leaving(self, state: TaskState = TaskState.LEAVING) -> None:
        """Writes to every ps that this task leaves, so that no ps stays up for it."""
        self._leaving = state
        self.on_each_ps(self.publish)

    def on_each_ps(self, write: Callable[[int], object]) -> None:
        """Calls `write(index)` for all ps at once; waits at most 1.5 s for those known to be silent."""
        threads = [
            threading.Thread(target=_try_write, args=[write, index], daemon=True, name="write")
            for index in range(len(self._names))
        ]
        deadline = time.monotonic() + _SILENT_SECS
        for thread in threads:
            thread.start()
        for index in sorted(range(len(threads)), key=self.is_silent):
            left = max(0.0, deadline - time.monotonic())
            threads[index].join(left if self.is_silent(index) else None)

    def _try_beat(self, index: int) -> None:
        try:
            self.beat(index)
            self._silent.discard(index)
        except PsTrainError as error:
            self._silent.add(index)
            if self.has_failed(index, error):
                self._signs[index].stop()


def _try_write(write: Callable[[int], object], index: int) -> None:
    try:
        write(index)
    except PsTrainError as error:
        log.info("a record could not be written: %s", error)


class ScriptPresence(Presence):
    """The presence of a script's process; the process's end announces the end of its task.

    Args:
      task: name of the task, `worker:1`.
      ps: addresses of all ps.
      limits: the seconds after which another task counts as gone.

    Attributes:
      task: the same.
      process_id: a text unique to this process and presence.
    """

    def __init__(self, task: str, ps: Sequence[Address], limits: AbsenceLimits) -> None:
        super().__init__([f"ps:{index} ({address})" for index, address in enumerate(ps)])
        self.task, self._ps = task, list(ps)
        self._status = dataclasses.replace(new_task_status(task), state=TaskState.TRAINING)
        self.process_id = self._status.process_id
        self._stores: dict[int, KeyValueStore] = {}
        self._others = JobEndDetector([], limits, time.monotonic())
        self._ended: set[str] = set()
        self._counts = [0] * len(self._ps)
        self._locks = [threading.Lock() for _ in self._ps]
        self._announced = [threading.Event() for _ in self._ps]
        self.start()
        _note_failures()
        atexit.register(self.leave)

    @property
    def state(self) -> str:
        """The state in the heartbeats, until this task leaves."""
        return self._status.state

    def announce(self, state: TaskState) -> None:
        """Changes the state, and writes it to every ps at once."""
        self._status = dataclasses.replace(self._status, state=state)
        self.on_each_ps(self.publish)

    def leave(self) -> None:
        """Announces the end of this task, as failed if an exception ends the process; waits a few seconds at most."""
        atexit.unregister(self.leave)
        if not self.has_left:
            self.announce_leaving(TaskState.FAILED if _failed.is_set() else TaskState.LEFT)
            self.stop()

    def wait_for_ps(self, timeout_secs: float) -> None:
        """Waits until every ps answers; raises UnreachableError after that time, and warns every 10 s before."""
        for name, address in zip(self._names, self._ps, strict=True):
            retry_until(functools.partial(check_reachable, address), timeout_secs, name)

    def connected_store(self, index: int, timeout_secs: float = 3.0, table: str = BOARD) -> KeyValueStore:
        """Returns another client of a ps's store, once this task has announced itself there.

        Args:
          index: of the ps.
          timeout_secs: seconds that one call may take.
          table: of the store.

        Raises:
          LostTaskError: the ps does not answer.
        """
        if not self._announced[index].wait(_ANNOUNCE_SECS):
            raise LostTaskError(f"{self._names[index]} does not answer")
        return ps_store(self._ps[index], index, timeout_secs, table)

    def beat(self, index: int) -> None:
        """Writes a heartbeat; on ps 0 it also reads those of the other tasks."""
        self.publish(index)
        if index == 0:
            statuses = task_statuses(self._stores[0].items())
            gone = [status for status in statuses if self.is_gone(status)]  # every heartbeat is noted
            self._ended = {status.task for status in gone if status.state in (TaskState.LEFT, TaskState.FAILED)}

    def has_ended(self, task: str) -> bool:
        """Returns whether another task has announced its end, and was not started again since."""
        return task in self._ended

    def is_gone(self, status: TaskStatus) -> bool:
        """Returns whether another task has ended, or is silent for so long that it counts as gone."""
        return self._others.is_gone(status, time.monotonic())

    def publish(self, index: int) -> None:
        """Writes a heartbeat and the state to the store of a ps; raises LostTaskError if it does not answer."""
        with self._locks[index]:  # or an older state could be written after a newer one
            self._counts[index] += 1
            state = self._leaving or self._status.state
            status = dataclasses.replace(self._status, heartbeat=self._counts[index], state=state)
            if index not in self._stores:
                try:
                    check_reachable(self._ps[index])
                except NotReadyError as error:
                    raise LostTaskError(f"{self._names[index]}: {error}") from None
                self._stores[index] = ps_store(self._ps[index], index)
            self._stores[index].set(task_key(self.task), status.to_json())
        self._announced[index].set()


def ps_store(address: Address, index: int, timeout_secs: float = 3.0, table: str = BOARD) -> KeyValueStore:
    """Returns a client of the store of ps `index`, whose server may know the whole cluster, or only itself."""
    filters = [f"/job:ps/task:{index}", "/job:local"]
    return KeyValueStore(address.target, f"ps:{index} ({address})", timeout_secs, filters, table)


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


@dataclasses.dataclass(frozen=True)
class AbsenceLimits:
    """Seconds after which an absent task of a script counts as gone.

    Attributes:
      silent_secs: a task that ran and sends no heartbeat.
      restart_secs: a task that failed and may be restarted.
      absent_secs: a task that never came, counted from the end of all others.
      startup_secs: all tasks that train, if none of them has come.
      finish_secs: a task for which the chief waits at its end, from the last change of the global step on.
    """

    silent_secs: float = 60.0
    restart_secs: float = 10.0
    absent_secs: float = 30.0
    startup_secs: float = 600.0
    finish_secs: float = 60.0


class JobEndDetector:
    """Detector of a script's end, with which its job ends.  The caller passes the records and the time.

    Args:
      tasks: names of the tasks that train, `worker:0`.
      limits: for tasks that end without a word.
      now: seconds of a monotonic clock.
    """

    def __init__(self, tasks: Sequence[str], limits: AbsenceLimits, now: float) -> None:
        self._tasks, self._limits, self._start = list(tasks), limits, now
        self._tracker = LivenessTracker()
        self._others_over_at: float | None = None

    def update(self, found: Iterable[TaskStatus], now: float) -> str:
        """Returns a sentence that says why the job is over; "" while it is not.

        Args:
          found: statuses of the tasks that have a record.
          now: seconds of a monotonic clock.

        Raises:
          JobFailedError: all tasks are gone, and none ended well.
          UnreachableError: no task came.
        """
        statuses = {status.task: status for status in found}
        come = [task for task in self._tasks if task in statuses]
        if not come:
            if now - self._start > self._limits.startup_secs:
                raise UnreachableError(f"no worker has come within {human_secs(self._limits.startup_secs)}.")
            return ""
        gone = {task for task in come if self.is_gone(statuses[task], now)}  # every heartbeat is noted
        if len(gone) < len(come):
            self._others_over_at = None
            return ""
        self._others_over_at = self._others_over_at or now
        absent = [task for task in self._tasks if task not in statuses]
        deadline = self._others_over_at + self._limits.absent_secs
        if all(statuses[task].state == TaskState.SERVING for task in come):  # no task that trains has come
            deadline = self._start + self._limits.startup_secs
        if absent and now < deadline:
            return ""
        return self._outcome({task: statuses[task].state for task in come}, absent)

    def is_gone(self, status: TaskStatus, now: float) -> bool:
        """Returns whether a task has ended, or is silent for so long that it counts as gone."""
        silent_secs = self._tracker.silent_secs(status.task, (status.process_id, status.heartbeat, status.state), now)
        allowed: dict[str, float] = {**dict.fromkeys(_ENDED, 0.0), TaskState.FAILED: self._limits.restart_secs}
        return silent_secs >= allowed.get(status.state, self._limits.silent_secs)

    @staticmethod
    def _outcome(states: Mapping[str, str], absent: Sequence[str]) -> str:
        ended = [task for task, state in states.items() if state in _ENDED]
        others = [f"{task} failed" for task, state in states.items() if state == TaskState.FAILED]
        others += [f"{task} fell silent" for task, state in states.items() if state not in _LAST]
        others += [f"{task} never came" for task in absent]
        if not ended:
            raise JobFailedError(f"the job failed: {', '.join(others)}.")
        return f"the job is over: {', '.join([*(f'{task} ended' for task in ended), *others])}"


_ENDED = (TaskState.LEFT, TaskState.SERVING)
_LAST = (*_ENDED, TaskState.FAILED)


def wait_for_end(
    store: KeyValueStore, detector: JobEndDetector, pause_secs: float = 0.2, lost_secs: float = float("inf")
) -> str:
    """Waits until a job is over; returns the sentence that says why, or raises TrainingError if the job failed.

    Args:
      store: of a ps.  The process's own store may be too busy to answer in time.
      detector: knows the end by the records.
      pause_secs: seconds between two looks.
      lost_secs: seconds for which the ps of another process, once it has answered, may be silent: it ends with the job.
    """
    answered = float("inf")
    while True:
        try:
            reason = detector.update(task_statuses(store.items()), time.monotonic())
            answered = time.monotonic()
            if reason:
                return reason
        except LostTaskError:
            if time.monotonic() - answered > lost_secs:
                return f"{store.name} has ended"
        time.sleep(pause_secs)
