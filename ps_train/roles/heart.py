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

from ps_train.cluster import notices
from ps_train.cluster.board import Board
from ps_train.cluster.lease import Lease
from ps_train.cluster.notices import Identity, Outcome, Ready, Seat, Stop
from ps_train.cluster.probe import NotYetError, check_identity, connect
from ps_train.cluster.whereabouts import Whereabouts
from ps_train.config import Job
from ps_train.errors import JobFailedError, LostTaskError, PsTrainError, RefusedError, UnreachableError
from ps_train.roles.lives import Lives
from ps_train.roles.supervise import Attention

log = logging.getLogger(__name__)

BEAT_SECS = 0.5
_SILENT_SECS = 1.5
"""The last words of a task wait no longer for a ps that does not answer."""


class EndOfJob(Exception):
    """Not an error: the chief has declared the outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.kind)
        self.outcome = outcome


def failure_of(outcome: Outcome) -> PsTrainError:
    error = JobFailedError(f"the job failed: {outcome.by}: {outcome.cause}")
    if outcome.config:
        error.exit_code = 2
    return error


class Watcher(Protocol):
    """What the heart tells whom it hears, on the board of ps 0."""

    def look(self, seats: Iterable[Seat], now: float) -> PsTrainError | None:
        """Returns an error that ends the job for this task."""

    def excuse(self, secs: float) -> None:
        """For so long nobody could be heard, because ps 0 did not answer."""


class Watch:
    """Who has fallen silent?  Fed with what a board shows, and the time.

    Args:
      needed: tasks without which this one cannot go on, and how many seconds of silence each is allowed.
      join_secs: how long a needed task may take to appear.
    """

    def __init__(self, needed: Mapping[str, float], join_secs: float, now: float) -> None:
        self._needed = needed
        self._join_secs = join_secs
        self._start = now
        self._heard: dict[str, tuple[str, float]] = {}

    def excuse(self, secs: float) -> None:
        self._start += secs
        self._heard = {task: (mark, heard + secs) for task, (mark, heard) in self._heard.items()}

    def look(self, seats: Iterable[Seat], now: float) -> PsTrainError | None:
        """An error that names the first task that is missing or silent for too long."""
        present = {seat.task: seat for seat in seats}
        for task, allowed in self._needed.items():
            seat = present.get(task)
            if seat is None:
                if now - self._start > self._join_secs:
                    return UnreachableError(f"{task} has not joined within {self._join_secs:g}s (startup_timeout_secs)")
                continue
            mark = f"{seat.holder}/{seat.beat}"
            if self._heard.get(task, ("", 0.0))[0] != mark:
                self._heard[task] = (mark, now)
            elif now - self._heard[task][1] > allowed:
                return LostTaskError(f"{seat.place()} has said nothing for {allowed:g}s")
        return None


class Heart:
    """Start it when the seat is taken; `say` changes what it tells the others.

    There is one thread for each board, so that a ps that does not answer delays nothing on the others.

    Attributes:
      lives: what is known of the ps.
    """

    def __init__(
        self,
        boards: list[Board],
        whereabouts: Whereabouts,
        lease: Lease,
        attention: Attention,
        job: Job,
        watch: Watcher,
    ) -> None:
        self._boards, self._lease, self._attention, self._job, self._watch = boards, lease, attention, job, watch
        self._whereabouts = whereabouts
        self._writing = [threading.Lock() for _ in boards]
        self._farewell = ""  # the last state, which the seat may not have yet where ps 0 is silent
        self.stop_notice: Stop | None = None
        self.lives = Lives([b.name for b in boards], [b.incarnation for b in boards], job.recovery_secs)

    @property
    def holder(self) -> str:
        """What is unique to this process."""
        return self._lease.seat.holder

    def start(self) -> None:
        for index, board in enumerate(self._boards):
            threading.Thread(target=self._beat, args=[index], daemon=True, name=f"heart {board.name}").start()

    def say(self, state: str | None = None) -> None:
        """Shows on the board of ps 0 that the task lives, and its state, which may be a new one; raises RefusedError if
        the seat was taken over."""
        if not self._lease.say(state):
            raise RefusedError(f"{self._lease.seat.task} was given up and taken over by another process.")

    def show(self, index: int) -> None:
        """Shows on a board that the task lives, and its state, whatever that is by the time it is written."""
        if index == 0:
            return self.say()
        with self._writing[index]:  # or an older state could be written after a newer one
            seat = self._lease.seat
            said = dataclasses.replace(seat, state=self._farewell or seat.state)
            self._boards[index].put(notices.seat(seat.task), said.to_json())

    def say_farewell(self, state: str = notices.LEAVING) -> None:
        """Tells every ps that this task goes: they need not stay for it."""
        self._farewell = state
        self.on_each(lambda index: self._lease.say(state) if index == 0 else self.show(index))

    def on_each(self, write: Callable[[int], object]) -> None:
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

    def _beat(self, index: int) -> None:
        board, answered = self._boards[index], time.monotonic()
        while True:
            self._follow(index)
            asked = time.monotonic()
            try:
                self.show(index)
                found = board.items()
                if index == 0 and self.lives.is_silent(0):
                    self._watch.excuse(asked - answered)
                self._hear(index, found, asked)
                self._react(found, watch=index == 0)
                answered = time.monotonic()
            except RefusedError as error:
                return self._attention.raise_verdict(error)
            except LostTaskError as error:
                if not self._knock(index):
                    self._silent(index, str(error).removeprefix(board.name + " "))
                if time.monotonic() - answered > self._job.recovery_secs:
                    secs = f"{self._job.recovery_secs:g}s (recovery_secs)"
                    return self._attention.raise_verdict(LostTaskError(f"lost {board.name} for {secs}: {error}"))
            time.sleep(BEAT_SECS)

    def _follow(self, index: int) -> None:
        """Where the ps is at another address now, it is asked there."""
        address, board = self._whereabouts.look().ps[index], self._boards[index]
        name = f"ps:{index} ({address})"
        if name != board.name:
            board.move(address.target, name)
            _tell(self.lives.moved(index, name))

    def knock(self) -> None:
        """A ps has just been lost: finds out at once which, if it is gone altogether."""
        for index in range(len(self._boards)):
            self._knock(index)

    def _knock(self, index: int) -> bool:
        """Whether it was found to be gone."""
        try:
            connect(self._whereabouts.look().ps[index])
        except NotYetError as missing:
            self._silent(index, str(missing))
            return True
        return False

    def _silent(self, index: int, cause: str) -> None:
        line = self.lives.silent(index, cause)
        _tell(line if self._attention.verdict is None else None)

    def _hear(self, index: int, found: Mapping[str, str], asked: float) -> None:
        """Who answered, and in which world it is."""
        board = self._boards[index]
        if notices.IDENTITY not in found:
            raise LostTaskError(f"{board.name} does not say yet who it is")
        identity = Identity.from_json(found[notices.IDENTITY])
        check_identity(identity, f"ps:{index}", board.name, self._lease.seat.task, self._job.shared_fields())
        world = Ready.from_json(found[notices.READY]).world if notices.READY in found else ""
        _tell(self.lives.heard(index, identity.incarnation, world, asked))

    def _react(self, found: Mapping[str, str], watch: bool) -> None:
        if notices.OUTCOME in found:
            self._attention.raise_verdict(EndOfJob(Outcome.from_json(found[notices.OUTCOME])))
        if notices.STOP in found and self.stop_notice is None:
            self.stop_notice = Stop.from_json(found[notices.STOP])
            self._attention.wake()
        if watch:
            silent = self._watch.look(seats_of(found), time.monotonic())
            if silent is not None:
                self._attention.raise_verdict(silent)


def _written(write: Callable[[int], object], index: int) -> None:
    try:
        write(index)
    except LostTaskError as error:
        log.info("cannot be told: %s", error)


def _tell(line: str | None) -> None:
    if line is not None:
        log.warning("%s", line)


def seats_of(items: Mapping[str, str]) -> list[Seat]:
    """The training tasks that a board knows."""
    return [Seat.from_json(text) for key, text in items.items() if key.startswith(notices.seat(""))]
