"""Does everybody wait for somebody who lives but makes no steps?  An input that hangs looks like that.

    stall = Stall(tell_secs=30)
    stall.look(step=512, awaited=["worker:1"], now=time.monotonic())      # a line to be said, or None

Pure.  Nobody is dismissed for it: a step may take long.
"""

from __future__ import annotations

from collections.abc import Sequence


class StallDetector:
    """Tells after `tell_secs` without a new step, and again whenever that time has doubled."""

    def __init__(self, tell_secs: float) -> None:
        self._tell_secs = tell_secs
        self._step = -1
        self._since, self._next = 0.0, tell_secs

    def update(self, step: int, awaited: Sequence[str], now: float) -> str | None:
        if step != self._step or not awaited:
            self._step, self._since, self._next = step, now, self._tell_secs
            return None
        if now - self._since < self._next:
            return None
        self._next *= 2
        return f"no update since step {step}, for {now - self._since:.0f}s: all wait for {', '.join(awaited)}"
