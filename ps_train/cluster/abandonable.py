"""Work in a separate thread that can be abandoned while a call hangs.

    run_abandonable(train, group, has_ended)        # returns or raises as `train` does; LostConnectionError: abandoned
    run_within(save, 5, has_ended)                  # the same with a deadline; TimeoutError

A call to a ps that has fallen silent does not end, and a thread inside such a call cannot be interrupted.  An abandoned
thread ends as soon as its call does, without any effect (`SessionGroup`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ps_train.cluster.calls import AbandonedCallError, LostConnectionError, SessionGroup

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
        if (group.is_overdue() and group.abandon(0.0)) or (has_ended() and group.abandon(GRACE_SECS)):
            group.hang_up()
            raise LostConnectionError("a call hangs: the ps that it waits for was replaced, or a task has refused it")
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
