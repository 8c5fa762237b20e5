"""Work in a separate thread that can be abandoned while a call hangs.

    run_abandonable(train, group, has_ended)        # returns or raises as `train` does; LostConnectionError: abandoned
    run_within(save, 5, has_ended)                  # the same with a deadline; TimeoutError

A call to a ps that has fallen silent does not end, and a thread inside such a call cannot be interrupted.  An abandoned
thread ends as soon as its call does, without any effect (`SessionGroup`).
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from ps_train.cluster.sessions.calls import AbandonedCallError, LostConnectionError, SessionGroup

log = logging.getLogger(__name__)

LATER_SECS = 5.0
"""Seconds after which a call that TensorFlow has prepared is checked, if it has not begun."""

_RESET_CALLS = 20
"""Number of timely calls of a session after which the timeout is reset."""


class CallCounts(Protocol):
    """The counters of a `TrainingLoop`."""

    calls: int

    @property
    def is_prepared(self) -> bool:
        """True if TensorFlow has prepared all calls of the session that run now."""


class StuckCallDetector:
    """Detector of calls that a task has refused, and that never end.

    A call begins when all its tasks have begun.  To prepare one takes TensorFlow long for a large graph; such a call is
    not stuck.

    Args:
      begun: returns the number of this process's calls that have begun on all their tasks.
      max_secs: maximum seconds for a prepared call to begin; doubled after each stuck call, because the network may be
        slow.
      preparation_secs: seconds for a call to begin that must be prepared first, or beside which another one is
        prepared; doubled in the same way.
    """

    def __init__(self, begun: Callable[[], int], max_secs: float, preparation_secs: float) -> None:
        self._begun, self._prepared_secs, self._preparation_secs = begun, min(LATER_SECS, max_secs), preparation_secs
        self._factor = 1
        self._loop: CallCounts | None = None
        self._calls, self._since, self._before = 0, 0.0, 0

    def begin(self, loop: CallCounts) -> None:
        """Starts to observe the loop of a new session, before its first call."""
        self._before = self._begun()
        self._loop = loop

    def is_stuck(self, now: float) -> bool:
        """Returns True, once for each call, if the running call has not begun in time.

        Args:
          now: seconds of a monotonic clock.
        """
        loop = self._loop
        if loop is None or loop.calls != self._calls:
            self._calls, self._since = loop.calls if loop is not None else 0, now
            if self._calls > _RESET_CALLS:
                self._factor = 1
            return False
        if self._calls == 0 or now - self._since < self._timeout_secs(loop):
            return False
        waited, self._since = now - self._since, now  # a step may take long
        if self._begun() - self._before >= self._calls or loop.calls != self._calls:
            return False
        log.warning("a call has not begun on all its tasks within %.0fs", waited)
        self._factor *= 2
        self._loop = None
        return True

    def _timeout_secs(self, loop: CallCounts) -> float:
        return (self._prepared_secs if loop.is_prepared else self._preparation_secs) * self._factor


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


GRACE_SECS = 1.0
"""Seconds for a call to end by itself after its session has ended."""

_POLL_SECS = 0.1


def run_abandonable(train: Callable[[], None], group: SessionGroup, has_ended: Callable[[], bool]) -> None:
    """Runs `train` until it ends, or until it hangs in a call although its session has ended.

    Args:
      train: the function; it runs in a thread of its own.
      group: the sessions used by `train`.
      has_ended: returns True when the session has ended, and its running calls no longer count.

    Raises:
      LostConnectionError: the thread was abandoned.
    """
    running = _AbandonableThread(train, group)
    while not running.ended.wait(_POLL_SECS):
        is_overdue = group.is_overdue()
        if (is_overdue and group.abandon(0.0)) or (has_ended() and group.abandon(GRACE_SECS)):
            group.hang_up()
            why = "it is long past its deadline" if is_overdue else "its ps was replaced, or a task has refused it"
            raise LostConnectionError(f"a call hangs: {why}")
    if running.error is not None:
        raise running.error


def run_within(work: Callable[[], None], within_secs: float, is_hopeless: Callable[[], bool]) -> None:
    """Runs `work`; abandons it at the deadline or when it cannot succeed.

    Args:
      work: the function; it runs in a thread of its own.
      within_secs: seconds until the deadline.
      is_hopeless: returns True if the work cannot succeed.

    Raises:
      TimeoutError: the work was abandoned.
    """
    running, deadline = _AbandonableThread(work), time.monotonic() + within_secs
    while not running.ended.wait(_POLL_SECS):
        if time.monotonic() > deadline or is_hopeless():
            raise TimeoutError
    if running.error is not None:
        raise running.error


class _AbandonableThread:
    """A thread and the error that it has raised."""

    def __init__(self, work: Callable[[], None], group: SessionGroup | None = None) -> None:
        self.ended = threading.Event()
        self.error: BaseException | None = None
        threading.Thread(target=self._work, args=[work, group], daemon=True, name="abandonable").start()

    def _work(self, work: Callable[[], None], group: SessionGroup | None) -> None:
        if group is not None:
            group.set_owner()
        try:
            work()
        except AbandonedCallError:
            return
        except BaseException as error:  # raised again by the waiting thread
            self.error = error
        self.ended.set()
