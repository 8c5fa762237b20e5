"""Slowdown of a replica, for --inject_fault=slow.

slowdown = Slowdown(factor=5)
run = slowdown.wrap(session.run)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any


class Slowdown:
    """A slowdown of a session's calls.

    Args:
      factor: factor by which each call takes longer; above 1.
    """

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._seen: set[tuple[int, bool]] = set()

    def wrap(self, run: Callable[[Mapping[str, Any]], Any]) -> Callable[[Mapping[str, Any]], Any]:
        """Returns a slower version of a function of fetches.

        The first call of each kind is not slowed: TensorFlow prepares its graph, which may take seconds and is not
        part of the speed of steps.
        """

        def slow(fetches: Mapping[str, Any]) -> Any:
            began, kind = time.monotonic(), (len(fetches["train"]), "step" in fetches)
            result = run(fetches)
            if kind in self._seen:
                time.sleep((self._factor - 1) * (time.monotonic() - began))
            self._seen.add(kind)
            return result

        return slow
