"""A parameter server: serves its part of the variables until the job is over, then exits by itself.

It never calls `Server.join()`, which never returns: it looks at its own board a few times a second instead.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from ps_train.cluster import garbage, notices
from ps_train.cluster.board import Board
from ps_train.cluster.notices import LEAVING, LEFT, Outcome, Stop
from ps_train.cluster.server import start_server
from ps_train.cluster.spec import Cluster
from ps_train.config import Job, Task
from ps_train.console import Console
from ps_train.errors import EXIT_DONE, LostTaskError, PsTrainError, UnreachableError, exit_code_of_signal
from ps_train.roles.heart import failure_of, seats_of
from ps_train.roles.supervise import Attention

log = logging.getLogger(__name__)

_LOOK_SECS = 0.2
LINGER_SECS = 4.0
"""A ps stays until every training task has read the outcome on its board, but no longer than this."""


class Silence:
    """Has everybody gone?  Pure: fed with the board's seats and the time."""

    def __init__(self, job: Job, now: float) -> None:
        self._job = job
        self._changed = now
        self._last: Any = []

    def look(self, items: dict[str, str], now: float) -> PsTrainError | None:
        """An error when no worker came in time, or when all that came have fallen silent."""
        beats = sorted(f"{seat.holder}/{seat.beat}" for seat in seats_of(items))
        if beats != self._last:
            self._last, self._changed = beats, now
        quiet = now - self._changed
        if not beats and quiet > self._job.startup_timeout_secs:
            return UnreachableError(f"no worker has come within {quiet:.0f}s (startup_timeout_secs)")
        if beats and quiet > self._job.recovery_secs:
            return LostTaskError(f"no worker has said anything for {quiet:.0f}s (recovery_secs): all of them are gone")
        return None


def run(job: Job, task: Task, console: Console) -> int:
    """Serves; returns the exit code when the job is done or was stopped, raises when it failed."""
    address = Cluster.of(job).address(task)
    server = start_server(address, job)
    attention = Attention()
    board = Board(server.target, f"{task} ({address})")
    board.put(notices.IDENTITY, notices.new_identity(str(task), job.shared_fields()).to_json())
    log.info("%s serves on %s", task, address)
    garbage.begin()
    silence, told = Silence(job, time.monotonic()), False
    items: dict[str, str] = {}
    while True:
        items = _items(board, items)
        if notices.OUTCOME in items:
            _linger(board, {str(replica) for replica in Cluster.of(job).replicas()})
            return _end(Outcome.from_json(items[notices.OUTCOME]))
        if attention.signum is not None and not told:
            told = _ask_to_stop(board, Stop(str(task), attention.signum))
        if attention.signum is not None and not seats_of(items):
            return exit_code_of_signal(attention.signum)  # nobody is there who could save
        failure = silence.look(items, time.monotonic())
        if failure is not None:
            raise failure
        time.sleep(_LOOK_SECS)


def _items(board: Board, before: dict[str, str]) -> dict[str, str]:
    """What is on the board.  While this process itself is too busy to answer, what was there before still counts."""
    try:
        return board.items()
    except LostTaskError as error:
        log.debug("%s", error)
        return before


def _ask_to_stop(board: Board, stop: Stop) -> bool:
    """Whether it could be written."""
    try:
        board.put(notices.STOP, stop.to_json())
    except LostTaskError as error:
        log.debug("%s", error)
        return False
    log.warning("%s got signal %d; asking the chief to save and stop", stop.by, stop.signum)
    return True


def _linger(board: Board, replicas: set[str]) -> None:
    deadline = time.monotonic() + LINGER_SECS
    items: dict[str, str] = {}
    while time.monotonic() < deadline:
        items = _items(board, items)
        seats = seats_of(items)
        there = replicas | {seat.task for seat in seats}
        if there <= {seat.task for seat in seats if seat.state in (LEAVING, LEFT)}:
            return
        time.sleep(_LOOK_SECS)


def _end(outcome: Outcome) -> int:
    if outcome.kind == "failed":
        raise failure_of(outcome)
    return exit_code_of_signal(outcome.signum) if outcome.kind == "stopped" else EXIT_DONE
