"""The curves of a run: points of its progress, in bounded memory.

history = History()
history.add({"time": 1760000000.0, "step": 1200, "loss": 0.31})
history.points()
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

_MOST_POINTS = 1000


class History:
    """Points in the order of time.  When it is full every second point goes, and further ones come half as often."""

    def __init__(self) -> None:
        self._points: list[Mapping[str, Any]] = []
        self._every, self._seen = 1, 0
        self._lock = threading.Lock()

    def add(self, point: Mapping[str, Any]) -> None:
        """Takes in a point.  One with an earlier step than the last is kept, too: the run went back."""
        with self._lock:
            if self._seen % self._every == 0:
                self._points.append(point)
            self._seen += 1
            if len(self._points) >= _MOST_POINTS:
                self._points, self._every = self._points[::2], 2 * self._every

    def points(self) -> list[Mapping[str, Any]]:
        """Returns the points, at most 1000."""
        with self._lock:
            return list(self._points)
