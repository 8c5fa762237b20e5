"""One process for each task: a seat on the board of ps 0, taken atomically and kept by saying so every second.

    seat = Lease(board, new_seat("worker:1"))
    seat.take(lease_secs=10)           # RefusedError names who holds it
    seat.say("training")               # False when somebody else has taken over
    seat.say()                         # as before, and alive

A seat whose holder has fallen silent for the length of a lease is free; on the same machine, and in the same PID
namespace, it is free as soon as the holder's process is gone.
"""

from __future__ import annotations

import dataclasses
import threading
import time

from ps_train.cluster import notices
from ps_train.cluster.board import Board
from ps_train.cluster.notices import LEFT, Seat
from ps_train.cluster.process_ids import is_gone
from ps_train.errors import RefusedError

_LOOK_SECS = 0.2


class Lease:
    """This process's seat.  `take` once, then `say` again and again."""

    def __init__(self, board: Board, seat: Seat) -> None:
        self._board = board
        self._key = notices.seat(seat.task)
        self.seat = seat
        self._lock = threading.Lock()

    def take(self, lease_secs: float) -> None:
        """Raises RefusedError, naming the holder, if a living process has the seat."""
        held = ""
        while True:
            before = self._board.swap(self._key, held, self.seat.to_json())
            if before == held:
                return
            held = before
            holder = Seat.from_json(before)
            if holder.state != LEFT and not is_gone(holder) and not self._falls_silent(before, lease_secs):
                raise RefusedError(
                    f"{self.seat.task} is already running ({holder.place()}, on the board of {self._board.name}): "
                    "stop that process, or use another task_index."
                )

    def say(self, state: str | None = None) -> bool:
        """Shows that the process lives, and its state, which may be a new one; False if it no longer has the seat.

        What could not be written because the board did not answer is written next time.
        """
        with self._lock:
            old = self.seat
            self.seat = new = dataclasses.replace(old, beat=old.beat + 1, state=old.state if state is None else state)
            before = self._board.swap(self._key, old.to_json(), new.to_json())
            if before and Seat.from_json(before).holder != old.holder:
                return False
            if before != old.to_json():  # the board was lost with its ps, or a call was answered too late
                self._board.put(self._key, new.to_json())
            return True

    def _falls_silent(self, text: str, lease_secs: float) -> bool:
        deadline = time.monotonic() + lease_secs
        while time.monotonic() < deadline:
            if self._board.get(self._key) != text:
                return False
            time.sleep(_LOOK_SECS)
        return True
