"""The heart of a training task: a thread that says every second that the task lives, and listens to what others say.

It keeps the seat, sees outcome and stop notices, and notices who has fallen silent.  What is to be done about it is
decided by `Watch`, which is pure.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping

from ps_train.cluster import notices
from ps_train.cluster.board import Board
from ps_train.cluster.lease import Lease
from ps_train.cluster.notices import Outcome, Seat, Stop
from ps_train.config import Job
from ps_train.errors import JobFailedError, LostTaskError, PsTrainError, RefusedError, UnreachableError
from ps_train.roles.supervise import Attention

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
    """Start it when the seat is taken; `say` changes what it tells the others."""

    def __init__(self, boards: list[Board], lease: Lease, attention: Attention, job: Job, watch: Watch) -> None:
        self._boards, self._lease, self._attention, self._job, self._watch = boards, lease, attention, job, watch
        self._lock = threading.Lock()
        self._lost_since: dict[str, float] = {}
        self._stopped = threading.Event()
        self.stop_notice: Stop | None = None

    @property
    def holder(self) -> str:
        """What is unique to this process."""
        return self._lease.seat.holder

    def start(self) -> None:
        threading.Thread(target=self._beat_for_ever, daemon=True, name="heart").start()

    def stop(self) -> None:
        self._stopped.set()

    def say(self, state: str) -> None:
        """Changes the seat's state at once, on every board."""
        with self._lock:
            if not self._lease.say(state=state):
                raise RefusedError(f"{self._lease.seat.task} was given up and taken over by another process.")
            for board in self._boards[1:]:
                board.put(notices.seat(self._lease.seat.task), self._lease.seat.to_json())

    def _beat_for_ever(self) -> None:
        while not self._stopped.wait(BEAT_SECS):
            try:
                self.say(self._lease.seat.state)
            except LostTaskError:
                pass  # `_listen` finds out which, and since when
            except RefusedError as error:
                self._attention.raise_verdict(error)
                return
            for board in self._boards:
                self._listen(board)

    def _listen(self, board: Board) -> None:
        now = time.monotonic()
        try:
            found = board.items()
        except LostTaskError as error:
            since = self._lost_since.setdefault(board.name, now)
            if now - since > self._job.recovery_secs:
                self._attention.raise_verdict(
                    LostTaskError(
                        f"lost {board.name}: no answer for {self._job.recovery_secs:g}s (recovery_secs): {error}"
                    )
                )
            return
        self._lost_since.pop(board.name, None)
        if notices.OUTCOME in found:
            self._attention.raise_verdict(EndOfJob(Outcome.from_json(found[notices.OUTCOME])))
        if notices.STOP in found and self.stop_notice is None:
            self.stop_notice = Stop.from_json(found[notices.STOP])
            self._attention.wake()
        if board is self._boards[0]:
            silent = self._watch.look(seats_of(found), now)
            if silent is not None:
                self._attention.raise_verdict(silent)


def seats_of(items: Mapping[str, str]) -> list[Seat]:
    """The training tasks that a board knows."""
    return [Seat.from_json(text) for key, text in items.items() if key.startswith(notices.seat(""))]
