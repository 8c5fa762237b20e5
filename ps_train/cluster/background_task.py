"""Calls to a ps that the caller must not wait for.

    ask = BackgroundTask()
    ask(work)                       # returns at once

A call to a ps that has fallen silent may not end, whatever its deadline.  The thread inside it is then abandoned, and
another one does what is asked next.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable

PATIENCE_SECS = 20.0
"""Longer than the work takes at a ps that answers late (`calls.SHORT_CALL`)."""


class BackgroundTask:
    """A thread that runs one function at a time.  At most one more is queued; further ones are dropped.

    Args:
      patience_secs: how long a function may take before its thread is abandoned.
    """

    def __init__(self, patience_secs: float = PATIENCE_SECS) -> None:
        self._patience_secs = patience_secs
        self._thread = _OneByOne()

    def __call__(self, work: Callable[[], None]) -> None:
        """Queues the work; drops it if other work is queued."""
        if self._thread.has_ended() or self._thread.busy_secs() > self._patience_secs:
            self._thread.abandon()
            self._thread = _OneByOne()
        self._thread.offer(work)


class _OneByOne:
    def __init__(self) -> None:
        self._work: queue.Queue[Callable[[], None]] = queue.Queue(1)
        self._since: float | None = None
        self._abandoned = False
        self._thread = threading.Thread(target=self._do, daemon=True, name="background")
        self._thread.start()

    def offer(self, work: Callable[[], None]) -> None:
        with contextlib.suppress(queue.Full):
            self._work.put_nowait(work)

    def busy_secs(self) -> float:
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def abandon(self) -> None:
        self._abandoned = True

    def _do(self) -> None:
        while not self._abandoned:
            work = self._work.get()
            self._since = time.monotonic()
            work()
            self._since = None
