"""Detection of a call that never ends because this worker has refused its own part of the call.

    detector = StuckCallDetector(source.begun_calls, max_secs=30)
    detector.begin(loop)                        # in a new session, before its first call
    detector.is_stuck(time.monotonic())         # called repeatedly by another thread

TensorFlow cancels the other parts of a refused call (`cluster/calls.py`).  But the worker itself may refuse before
TensorFlow has sent the call to a ps.  TensorFlow does not cancel the parts that it sends later, and that ps waits
without end.  Such a call has changed nothing: no part of it has taken a batch.  A worker counts the calls that have
begun on all tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

FIRST_SECS, LATER_SECS = 30.0, 5.0
"""Seconds after which a call that has not begun is checked.  To prepare a graph of several steps takes some seconds."""

_RESET_CALLS = 20
"""Number of timely calls of a session after which the timeout is reset."""


class CallCounts(Protocol):
    """The counters of a `TrainingLoop`."""

    calls: int
    is_prepared: bool


class StuckCallDetector:
    """Detector of stuck calls.

    Args:
      begun: returns the number of this process's calls that have begun on all their tasks.
      max_secs: maximum seconds for a call to begin; doubled after each stuck call, because the network may be slow.
    """

    def __init__(self, begun: Callable[[], int], max_secs: float) -> None:
        self._begun, self._max_secs = begun, max_secs
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
        self._since = now  # a step may take long
        if self._begun() - self._before >= self._calls or loop.calls != self._calls:
            return False
        self._factor *= 2
        self._loop = None
        return True

    def _timeout_secs(self, loop: CallCounts) -> float:
        usual = LATER_SECS if loop.is_prepared else FIRST_SECS
        return min(usual, self._max_secs) * self._factor
