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

from ps_train.coordination import records
from ps_train.coordination.kv_store import KeyValueStore
from ps_train.coordination.records import LEFT, TaskStatus
from ps_train.errors import RefusedError
from ps_train.runtime.process_ids import process_exited

_LOOK_SECS = 0.2


class Lease:
    """This process's seat.  `take` once, then `say` again and again."""

    def __init__(self, board: KeyValueStore, seat: TaskStatus) -> None:
        self._board = board
        self._key = records.task_key(seat.task)
        self.status = seat
        self._lock = threading.Lock()

    def acquire(self, lease_secs: float) -> None:
        """Raises RefusedError, naming the holder, if a living process has the seat."""
        held = ""
        while True:
            before = self._board.compare_and_set(self._key, held, self.status.to_json())
            if before == held:
                return
            held = before
            holder = TaskStatus.from_json(before)
            if holder.state != LEFT and not process_exited(holder) and not self._wait_until_expired(before, lease_secs):
                raise RefusedError(
                    f"{self.status.task} is already running ({holder.location()}, on the board of {self._board.name}): "
                    "stop that process, or use another task_index."
                )

    def renew(self, state: str | None = None) -> bool:
        """Shows that the process lives, and its state, which may be a new one; False if it no longer has the seat.

        What could not be written because the board did not answer is written next time.
        """
        with self._lock:
            old = self.status
            self.status = new = dataclasses.replace(
                old, heartbeat=old.heartbeat + 1, state=old.state if state is None else state
            )
            before = self._board.compare_and_set(self._key, old.to_json(), new.to_json())
            if before and TaskStatus.from_json(before).process_id != old.process_id:
                return False
            if before != old.to_json():  # the board was lost with its ps, or a call was answered too late
                self._board.set(self._key, new.to_json())
            return True

    def _wait_until_expired(self, text: str, lease_secs: float) -> bool:
        deadline = time.monotonic() + lease_secs
        while time.monotonic() < deadline:
            if self._board.get(self._key) != text:
                return False
            time.sleep(_LOOK_SECS)
        return True
