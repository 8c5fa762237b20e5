"""The training in one session, in a thread of its own that can be left behind while a call hangs.

    attempt(train, group, has_ended)        # returns or raises as `train` does; LostConnectionError: it was left behind
    run_within(save, 5, has_ended)          # the same with a deadline; TimeoutError

A call with a ps that has fallen silent does not end, and nothing can interrupt a thread that is inside one.  A thread
that is left behind ends as soon as its call does, without having touched anything (`SessionGroup`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ps_train.cluster.calls import AbandonedCallError, SessionGroup
from ps_train.training.session import LostConnectionError

GRACE_SECS = 1.0
"""A call of an attempt that has ended may take so long to end by itself."""

_POLL_SECS = 0.1


def run_abandonable(train: Callable[[], None], group: SessionGroup, has_ended: Callable[[], bool]) -> None:
    """Runs `train` until it ends, or until it hangs in a call although the attempt has ended.

    Args:
      group: the sessions that `train` works with.
      has_ended: whether nothing that is still under way can count any more.
    """
    running = _AbandonableThread(train, group)
    while not running.ended.wait(_POLL_SECS):
        if (group.is_overdue() and group.abandon(0.0)) or (has_ended() and group.abandon(GRACE_SECS)):
            raise LostConnectionError("a call hangs: the ps that it waits for was replaced, or a task has refused it")
    if running.error is not None:
        raise running.error


def run_within(work: Callable[[], None], within_secs: float, is_hopeless: Callable[[], bool]) -> None:
    """Runs `work`; raises TimeoutError, and leaves it behind, at the deadline or as soon as it is hopeless."""
    running, deadline = _AbandonableThread(work), time.monotonic() + within_secs
    while not running.ended.wait(_POLL_SECS):
        if time.monotonic() > deadline or is_hopeless():
            raise TimeoutError
    if running.error is not None:
        raise running.error


class _AbandonableThread:
    """A thread, and what it has raised."""

    def __init__(self, work: Callable[[], None], group: SessionGroup | None = None) -> None:
        self.ended = threading.Event()
        self.error: BaseException | None = None
        threading.Thread(target=self._work, args=[work, group], daemon=True, name="attempt").start()

    def _work(self, work: Callable[[], None], group: SessionGroup | None) -> None:
        if group is not None:
            group.set_owner()
        try:
            work()
        except AbandonedCallError:
            return
        except BaseException as error:  # raised again where the thread is waited for
            self.error = error
        self.ended.set()
