"""A sign of life: a thread that does the same again and again, until it is stopped or its process ends.

    sign = LifeSign("run status", touch, every_secs=1.0)      # touch() writes into a ps's store, a file or an object
    sign.start()
    sign.stop()

The write must be new each time, since readers take any change for life (`cluster/membership/liveness.py`) and compare
no clocks.  What a failure means is the business of the function: it must not raise.
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
