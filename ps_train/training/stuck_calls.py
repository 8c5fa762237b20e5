"""Notices a call that will never end because this worker has refused its own part of it.

    watch = CallWatch(source.begun_calls, patience_secs=30)
    watch.begin(loop)                        # in a new session, before its first call
    watch.is_stuck(time.monotonic())         # asked again and again, by another thread

TensorFlow cancels the other parts of a refused call (`cluster/calls.py`).  But where the worker itself refuses before
TensorFlow has sent the call to a ps, it does not cancel what it sends afterwards, and that ps waits for ever.  Such a
call has changed nothing: no part of it has taken a batch.  A worker counts the calls that have begun everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

FIRST_SECS, LATER_SECS = 30.0, 5.0
"""A call that has not begun after this is looked at.  To prepare a graph of several steps takes some seconds."""

_FINE = 20
"""So many calls of a session that begin in time make the patience what it was."""


class CallCounts(Protocol):
    """A `loop.Loop`."""

    calls: int
    is_prepared: bool


class StuckCallDetector:
    """Args:
    begun: returns how many calls have begun on all their tasks, in this process.
    most_secs: the most that a call may take to begin, unless the network is slow: twice as long after one that was
      stuck.
    """

    def __init__(self, begun: Callable[[], int], most_secs: float) -> None:
        self._begun, self._most_secs = begun, most_secs
        self._factor = 1
        self._loop: CallCounts | None = None
        self._calls, self._since, self._before = 0, 0.0, 0

    def begin(self, loop: CallCounts) -> None:
        """Watches the calls of a session's loop, which has made none yet."""
        self._before = self._begun()
        self._loop = loop

    def is_stuck(self, now: float) -> bool:
        """Whether the call that is under way has not begun in time; says so once."""
        loop = self._loop
        if loop is None or loop.calls != self._calls:
            self._calls, self._since = loop.calls if loop is not None else 0, now
            if self._calls > _FINE:
                self._factor = 1
            return False
        if self._calls == 0 or now - self._since < self._patience_secs(loop):
            return False
        self._since = now  # a step may take long
        if self._begun() - self._before >= self._calls or loop.calls != self._calls:
            return False
        self._factor *= 2
        self._loop = None
        return True

    def _patience_secs(self, loop: CallCounts) -> float:
        usual = LATER_SECS if loop.is_prepared else FIRST_SECS
        return min(usual, self._most_secs) * self._factor
