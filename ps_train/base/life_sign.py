"""Signs of life: a thread that gives one again and again, and the reader's rule for how old one is.

    sign = LifeSign("run status", touch, every_secs=1.0)      # touch() writes into a ps's store, a file or an object
    sign.start()
    sign.stop()

    last = LastChange()
    last.secs(read_text("lock.json"), time.monotonic())       # 0.0 whenever it has changed

A sign must be new each time: a reader takes any change for life, and measures by its own clock since it has seen the
last one, so clocks are not compared between machines.  What a failure to write means is the business of the function
that writes: it must not raise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class LifeSign:
    """The thread.

    Args:
      name: of the thread.
      beat: gives the sign; it may call `stop`.
      every_secs: seconds between two signs.
      first_secs: seconds before the first one; None for `every_secs`.
    """

    def __init__(
        self, name: str, beat: Callable[[], object], every_secs: float, first_secs: float | None = None
    ) -> None:
        self._beat, self._every_secs = beat, every_secs
        self._first_secs = every_secs if first_secs is None else first_secs
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=name)

    @property
    def is_stopped(self) -> bool:
        """True once no further sign is begun."""
        return self._stopped.is_set()

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, wait_secs: float = 0.0) -> None:
        """Begins no further sign; waits so long for one under way."""
        self._stopped.set()
        if wait_secs and self._thread.ident is not None:
            self._thread.join(wait_secs)

    def _run(self) -> None:
        secs = self._first_secs
        while not self._stopped.wait(secs):
            secs = self._every_secs
            self._beat()


class LastChange:
    """The last change of a value, as one reader has seen it; the first value counts as one.  It reads no clock."""

    def __init__(self) -> None:
        self._seen: tuple[object, float] | None = None

    def is_new(self, value: object) -> bool:
        """Returns True if a value differs from the last one."""
        return self._seen is None or self._seen[0] != value

    def secs(self, value: object, now: float) -> float:
        """Takes in a value; returns the seconds since it has changed.

        Args:
          value: what was read just now.
          now: seconds of a monotonic clock.
        """
        if self._seen is None or self._seen[0] != value:
            self._seen = (value, now)
        return now - self._seen[1]

    def extend(self, secs: float) -> None:
        """Leaves out `secs` in which nothing could be read."""
        if self._seen is not None:
            self._seen = (self._seen[0], self._seen[1] + secs)
