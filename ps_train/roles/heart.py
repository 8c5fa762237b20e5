"""The heart of a training task: it says twice a second that the task lives, and listens to what others say.

It keeps the seat, sees outcome and stop notices, and notices who has fallen silent.  What is to be done about it is
decided by `Watch`, which is pure.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Protocol

from ps_train.cluster import notices
from ps_train.cluster.board import Board
from ps_train.cluster.lease import Lease
from ps_train.cluster.notices import Outcome, Seat, Stop
from ps_train.config import Job
from ps_train.errors import JobFailedError, LostTaskError, PsTrainError, RefusedError, UnreachableError
from ps_train.roles.supervise import Attention

log = logging.getLogger(__name__)

BEAT_SECS = 0.5


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
    """

    def __init__(self, boards: list[Board], lease: Lease, attention: Attention, job: Job, watch: Watcher) -> None:
        self._boards, self._lease, self._attention, self._job, self._watch = boards, lease, attention, job, watch
        self.stop_notice: Stop | None = None

    @property
    def holder(self) -> str:
        """What is unique to this process."""
        return self._lease.seat.holder

    def start(self) -> None:
        for board in self._boards:
            threading.Thread(target=self._beat, args=[board], daemon=True, name=f"heart {board.name}").start()

    def say(self, state: str) -> None:
        """Changes the seat's state on the board of ps 0 at once; raises RefusedError if the seat was taken over."""
        if not self._lease.say(state=state):
            raise RefusedError(f"{self._lease.seat.task} was given up and taken over by another process.")

    def say_farewell(self) -> None:
        """Tells every ps that this task has read the outcome: they need not stay for it."""
        for board in self._boards:
            try:
                if board is self._boards[0]:
                    self._lease.say(state=notices.LEAVING)
                else:
                    board.put(notices.seat(self._lease.seat.task), self._lease.seat.to_json())
            except LostTaskError as error:
                log.debug("%s", error)

    def _beat(self, board: Board) -> None:
        answered = time.monotonic()
        while True:
            try:
                if board is self._boards[0]:
                    self.say(self._lease.seat.state)
                else:
                    board.put(notices.seat(self._lease.seat.task), self._lease.seat.to_json())
                self._react(board.items(), watch=board is self._boards[0])
                answered = time.monotonic()
            except RefusedError as error:
                return self._attention.raise_verdict(error)
            except LostTaskError as error:
                log.debug("%s", error)
                if time.monotonic() - answered > self._job.recovery_secs:
                    secs = f"{self._job.recovery_secs:g}s (recovery_secs)"
                    return self._attention.raise_verdict(LostTaskError(f"lost {board.name} for {secs}: {error}"))
            time.sleep(BEAT_SECS)

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


def seats_of(items: Mapping[str, str]) -> list[Seat]:
    """The training tasks that a board knows."""
    return [Seat.from_json(text) for key, text in items.items() if key.startswith(notices.seat(""))]
