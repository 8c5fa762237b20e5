"""Stall detector: finds that all replicas wait for one that lives but makes no steps, as with an input that hangs.

    stall = StallDetector(warn_secs=30)
    stall.update(step=512, awaited=["worker:1"], now=time.monotonic())      # a line to log, or None

Pure.  No replica is removed for a stall, since a step may take long.
"""

from __future__ import annotations

from collections.abc import Sequence


class StallDetector:
    """Reports a stall after `warn_secs` without a new step, and again whenever that time has doubled."""

    def __init__(self, warn_secs: float) -> None:
        self._warn_secs = warn_secs
        self._step = -1
        self._since, self._next = 0.0, warn_secs

    def update(self, step: int, awaited: Sequence[str], now: float) -> str | None:
        """Returns a line to log, or None.

        Args:
          step: the global step.
          awaited: the tasks that others wait for.
          now: seconds of a monotonic clock.
        """
        if step != self._step or not awaited:
            self._step, self._since, self._next = step, now, self._warn_secs
            return None
        if now - self._since < self._next:
            return None
        self._next *= 2
        return f"no update since step {step}, for {now - self._since:.0f}s: all wait for {', '.join(awaited)}"
