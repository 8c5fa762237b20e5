"""Task lease: a record in the store of ps 0 that ensures that only one process runs as each task.

    lease = Lease(store, new_task_status("worker:1"))
    lease.acquire(lease_secs=10)         # RefusedError names the holder
    lease.renew(TaskState.TRAINING)      # False when another process has taken over
    lease.renew()                        # a heartbeat with the same state

A lease is acquired atomically and kept by renewing it.  It is free when its holder has been silent for `lease_secs`.
In the same PID namespace of the same machine it is free as soon as the holder's process has exited.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

from ps_train.base.errors import RefusedError
from ps_train.base.polling import poll_until
from ps_train.base.process_ids import process_exited
from ps_train.cluster.membership import records
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.records import TaskState, TaskStatus

_LOOK_SECS = 0.2


class Lease:
    """The lease of this process.  Call `acquire` once, then `renew` repeatedly.

    Args:
      store: of ps 0.
      status: the first status of this task.
      telemetry: returns the measurements that each heartbeat carries.

    Attributes:
      status: the status last published.
    """

    def __init__(
        self, store: KeyValueStore, status: TaskStatus, telemetry: Callable[[], dict[str, Any]] = dict
    ) -> None:
        self._store = store
        self._key = records.task_key(status.task)
        self.status = status
        self._telemetry = telemetry
        self._lock = threading.Lock()

    def acquire(self, lease_secs: float) -> None:
        """Waits until the lease is free, at most `lease_secs`, and acquires it.

        Raises:
          RefusedError: a living process holds the lease; the text names it.
        """
        held = ""
        while True:
            before = self._store.compare_and_set(self._key, held, self.status.to_json())
            if before in (held, self.status.to_json()):  # an earlier try may have been answered too late
                return
            held = before
            holder = TaskStatus.from_json(before)
            is_free = holder.state == TaskState.LEFT or process_exited(holder)
            if not is_free and not self._wait_until_expired(before, lease_secs):
                raise RefusedError(
                    f"{self.status.task} is already running ({holder.location()}, according to {self._store.name}): "
                    "stop that process, or use another task_index."
                )

    def renew(self, state: TaskState | None = None) -> bool:
        """Writes a heartbeat and the state; returns False if the process no longer holds the lease.

        A state that could not be written because the store did not answer is written by the next call.

        Args:
          state: the new state; None keeps the present one.
        """
        with self._lock:
            old = self.status
            self.status = new = dataclasses.replace(
                old,
                heartbeat=old.heartbeat + 1,
                state=old.state if state is None else state,
                telemetry=self._telemetry(),
            )
            before = self._store.compare_and_set(self._key, old.to_json(), new.to_json())
            if before and TaskStatus.from_json(before).process_id != old.process_id:
                return False
            if before != old.to_json():  # the store was lost with its ps, or a call was answered too late
                self._store.set(self._key, new.to_json())
            return True

    def _wait_until_expired(self, text: str, lease_secs: float) -> bool:
        deadline = time.monotonic() + lease_secs
        return not poll_until(lambda: self._store.get(self._key) != text, deadline, _LOOK_SECS)
