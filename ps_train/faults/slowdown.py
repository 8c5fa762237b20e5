"""A replica that is slower than it need be, for --inject=slow.

slow = Slow(factor=5)
run = slow.slowing(session.run)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any


class Slowdown:
    """Args: `factor`: how many times longer each run takes; 1: it does not."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._seen: set[tuple[int, bool]] = set()

    def wrap(self, run: Callable[[Mapping[str, Any]], Any]) -> Callable[[Mapping[str, Any]], Any]:
        """The same function of what is fetched.  What is run for the first time is not slowed: TensorFlow prepares it,
        which may take seconds and has nothing to do with the speed of steps."""
        if self._factor <= 1:
            return run

        def slow(fetches: Mapping[str, Any]) -> Any:
            began, kind = time.monotonic(), (len(fetches["train"]), "step" in fetches)
            result = run(fetches)
            if kind in self._seen:
                time.sleep((self._factor - 1) * (time.monotonic() - began))
            self._seen.add(kind)
            return result

        return slow
