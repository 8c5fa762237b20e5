"""The heart of a training task: it says twice a second that the task lives, and listens to what others say.

It keeps the seat, sees outcome and stop notices, and notices who has fallen silent.  What is to be done about it is
decided by `Watch`, which is pure.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from ps_train.cluster.resolver import ClusterResolver
from ps_train.config.job import Job
from ps_train.coordination import records
from ps_train.coordination.connect import NotReadyError, check_identity, open_store
from ps_train.coordination.kv_store import KeyValueStore
from ps_train.coordination.lease import Lease
from ps_train.coordination.liveness import LivenessTracker
from ps_train.coordination.ps_liveness import PsLiveness
from ps_train.coordination.records import Identity, ModelReady, Outcome, StopRequest, TaskStatus
from ps_train.errors import JobFailedError, LostTaskError, PsTrainError, RefusedError, UnreachableError
from ps_train.runtime.signals import MainThreadEvents

log = logging.getLogger(__name__)

HEARTBEAT_SECS = 0.5
_SILENT_SECS = 1.5
"""The last words of a task wait no longer for a ps that does not answer."""


class JobEnded(Exception):
    """Not an error: the chief has declared the outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.kind)
        self.outcome = outcome


def outcome_error(outcome: Outcome) -> PsTrainError:
    error = JobFailedError(f"the job failed: {outcome.by}: {outcome.cause}")
    if outcome.config:
        error.exit_code = 2
    return error


class PeerMonitor(Protocol):
    """What the heart tells whom it hears, on the board of ps 0."""

    def update(self, statuses: Iterable[TaskStatus], now: float) -> PsTrainError | None:
        """Returns an error that ends the job for this task."""

    def extend_deadlines(self, secs: float) -> None:
        """For so long nobody could be heard, because ps 0 did not answer."""


class FailureDetector:
    """Who has fallen silent?  Fed with what a board shows, and the time.

    Args:
      needed: tasks without which this one cannot go on, and how many seconds of silence each is allowed.
      join_secs: how long a needed task may take to appear.
    """

    def __init__(self, needed: Mapping[str, float], join_secs: float, now: float) -> None:
        self._needed, self._join_secs, self._start = needed, join_secs, now
        self._tracker = LivenessTracker()

    def extend_deadlines(self, secs: float) -> None:
        self._start += secs
        self._tracker.extend(secs)

    def update(self, statuses: Iterable[TaskStatus], now: float) -> PsTrainError | None:
        """Returns an error that names the first task that is missing or silent for too long."""
        present = {status.task: status for status in statuses}
        for task, allowed in self._needed.items():
            status = present.get(task)
            if status is None:
                if now - self._start > self._join_secs:
                    return UnreachableError(f"{task} has not joined within {self._join_secs:g}s (startup_timeout_secs)")
                continue
            if self._tracker.silent_secs(task, (status.process_id, status.heartbeat), now) > allowed:
                return LostTaskError(f"{status.location()} has said nothing for {allowed:g}s")
        return None


class Heartbeat:
    """Start it when the seat is taken; `say` changes what it tells the others.

    There is one thread for each board, so that a ps that does not answer delays nothing on the others.

    Attributes:
      lives: what is known of the ps.
    """

    def __init__(
        self,
        boards: list[KeyValueStore],
        whereabouts: ClusterResolver,
        lease: Lease,
        attention: MainThreadEvents,
        job: Job,
        watch: PeerMonitor,
    ) -> None:
        self._boards, self._lease, self._attention, self._job, self._monitor = boards, lease, attention, job, watch
        self._whereabouts = whereabouts
        self._writing = [threading.Lock() for _ in boards]
        self._leaving = ""  # the last state, which the seat may not have yet where ps 0 is silent
        self.stop_notice: StopRequest | None = None
        self.lives = PsLiveness([b.name for b in boards], [b.incarnation for b in boards], job.recovery_secs)

    @property
    def process_id(self) -> str:
        """What is unique to this process."""
        return self._lease.status.process_id

    def start(self) -> None:
        for index, board in enumerate(self._boards):
            threading.Thread(
                target=self._beat_until_stopped, args=[index], daemon=True, name=f"heart {board.name}"
            ).start()

    def set_state(self, state: str | None = None) -> None:
        """Shows on the board of ps 0 that the task lives, and its state, which may be a new one; raises RefusedError if
        the seat was taken over."""
        if not self._lease.renew(state):
            raise RefusedError(f"{self._lease.status.task} was given up and taken over by another process.")

    def publish(self, index: int) -> None:
        """Shows on a board that the task lives, and its state, whatever that is by the time it is written."""
        if index == 0:
            return self.set_state()
        with self._writing[index]:  # or an older state could be written after a newer one
            seat = self._lease.status
            said = dataclasses.replace(seat, state=self._leaving or seat.state)
            self._boards[index].set(records.task_key(seat.task), said.to_json())

    def announce_leaving(self, state: str = records.LEAVING) -> None:
        """Tells every ps that this task goes: they need not stay for it."""
        self._leaving = state
        self.on_each_ps(lambda index: self._lease.renew(state) if index == 0 else self.publish(index))

    def on_each_ps(self, write: Callable[[int], object]) -> None:
        """Writes on all boards at once; does not wait long for those that are known to be silent."""
        threads = [
            threading.Thread(target=_written, args=[write, index], daemon=True, name="write")
            for index in range(len(self._boards))
        ]
        deadline = time.monotonic() + _SILENT_SECS
        for thread in threads:
            thread.start()
        for index in sorted(range(len(threads)), key=self.lives.is_silent):
            left = max(0.0, deadline - time.monotonic())
            threads[index].join(left if self.lives.is_silent(index) else None)

    def _beat_until_stopped(self, index: int) -> None:
        board, answered = self._boards[index], time.monotonic()
        while True:
            self._update_address(index)
            asked = time.monotonic()
            try:
                self.publish(index)
                found = board.items()
                if index == 0 and self.lives.is_silent(0):
                    self._monitor.extend_deadlines(asked - answered)
                self._read_records(index, found, asked)
                self._react(found, watch=index == 0)
                answered = time.monotonic()
            except RefusedError as error:
                return self._attention.set_terminal_error(error)
            except LostTaskError as error:
                if not self._probe(index):
                    self._silent_ps(index, str(error).removeprefix(board.name + " "))
                if time.monotonic() - answered > self._job.recovery_secs:
                    secs = f"{self._job.recovery_secs:g}s (recovery_secs)"
                    return self._attention.set_terminal_error(LostTaskError(f"lost {board.name} for {secs}: {error}"))
            time.sleep(HEARTBEAT_SECS)

    def _update_address(self, index: int) -> None:
        """Where the ps is at another address now, it is asked there."""
        address, board = self._whereabouts.current().ps[index], self._boards[index]
        name = f"ps:{index} ({address})"
        if name != board.name:
            board.reconnect_to(address.target, name)
            _log(self.lives.record_move(index, name))

    def probe_ps(self) -> None:
        """A ps has just been lost: finds out at once which, if it is gone altogether."""
        for index in range(len(self._boards)):
            self._probe(index)

    def _probe(self, index: int) -> bool:
        """Whether it was found to be gone."""
        try:
            open_store(self._whereabouts.current().ps[index])
        except NotReadyError as missing:
            self._silent_ps(index, str(missing))
            return True
        return False

    def _silent_ps(self, index: int, cause: str) -> None:
        line = self.lives.silent(index, cause)
        _log(line if self._attention.terminal_error is None else None)

    def _read_records(self, index: int, found: Mapping[str, str], asked: float) -> None:
        """Who answered, and in which world it is."""
        board = self._boards[index]
        if records.IDENTITY not in found:
            raise LostTaskError(f"{board.name} does not say yet who it is")
        identity = Identity.from_json(found[records.IDENTITY])
        check_identity(identity, f"ps:{index}", board.name, self._lease.status.task, self._job.shared_fields())
        world = ModelReady.from_json(found[records.READY]).generation if records.READY in found else ""
        _log(self.lives.record_answer(index, identity.incarnation, world, asked))

    def _react(self, found: Mapping[str, str], watch: bool) -> None:
        if records.OUTCOME in found:
            self._attention.set_terminal_error(JobEnded(Outcome.from_json(found[records.OUTCOME])))
        if records.STOP in found and self.stop_notice is None:
            self.stop_notice = StopRequest.from_json(found[records.STOP])
            self._attention.wake()
        if watch:
            silent = self._monitor.update(task_statuses(found), time.monotonic())
            if silent is not None:
                self._attention.set_terminal_error(silent)


def _written(write: Callable[[int], object], index: int) -> None:
    try:
        write(index)
    except LostTaskError as error:
        log.info("cannot be told: %s", error)


def _log(line: str | None) -> None:
    if line is not None:
        log.warning("%s", line)


def task_statuses(items: Mapping[str, str]) -> list[TaskStatus]:
    """The training tasks that a board knows."""
    return [TaskStatus.from_json(text) for key, text in items.items() if key.startswith(records.task_key(""))]
