"""Lag of data without an end: what is left to read of each partition, whether it grows, and cuts by event time.

    lag = StreamLag()
    lag.update("worker:0", {"0": (1200.0, 8000.0)}, now)    # left to read, and read so far by this worker
    lag.update_cuts("worker:0", late_rows=3, next_cut_ms=1_795_737_600_000)
    lag.read(now)       # {"lag": 1200.0, "unit": "rows", "growth": 0.9, "partitions": [{"partition": 0, ...}], ...}

The worker of a partition measures both in the unit of the source.  What arrives is what is read, and the change of what
is left.  A job keeps up with its source if it reads as fast as that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

_WINDOW_SECS = 60.0
_SMALL_SECS = 10.0
"""A lag that is read within this time is small, whether it grows or not."""

_SILENT_SECS = 30.0


class StreamLag:
    """The lag of all partitions, from the measurements of the workers that read them."""

    def __init__(self) -> None:
        self._lags: dict[str, tuple[str, float, float]] = {}  # task, lag and time of the newest measurement
        self._read: dict[tuple[str, str], float] = {}
        self._arrived = self._used = 0.0
        self._samples: deque[tuple[float, float, float]] = deque()
        self._late_of: dict[str, float] = {}
        self._late: float | None = None
        self._next_cut: float | None = None
        self.unit = "rows"

    def update(self, task: str, partitions: Mapping[str, tuple[float, float]], now: float) -> None:
        """Takes in the partitions of a worker: what is left to read, and what the worker has read since its start."""
        for partition, (lag, used) in partitions.items():
            before, known = self._read.get((task, partition)), self._lags.get(partition)
            read = used - before if before is not None and used >= before else 0.0
            self._read[task, partition] = used
            if known is not None:
                self._used += read
                self._arrived += max(0.0, lag - known[1] + read) if known[0] == task else 0.0
            self._lags[partition] = (task, lag, now)
        if partitions:
            self._samples.append((now, self._arrived, self._used))
            while len(self._samples) > 2 and self._samples[1][0] <= now - _WINDOW_SECS:
                self._samples.popleft()

    def update_cuts(self, task: str, late_rows: float, next_cut_ms: float) -> None:
        """Takes in the late rows of a worker since its start, and the next cut by event time; 0: none is chosen."""
        before = self._late_of.get(task, 0.0)
        self._late = (self._late or 0.0) + (late_rows - before if late_rows >= before else late_rows)
        self._late_of[task] = late_rows
        self._next_cut = next_cut_ms / 1000 or self._next_cut

    def read(self, now: float) -> dict[str, Any] | None:
        """Returns the lag of the partitions and its growth; None where no worker reads such data.

        The growth is what arrived over what was read in the last minute: above 1 the lag grows.  It is at most 1 for a
        small lag, and None while it is not known, such as where no worker reads.  `late_rows` and `next_cut`, in
        seconds since 1970, are None without cuts by event time.
        """
        if not self._lags:
            return None
        total = sum(lag for _, lag, _ in self._lags.values())
        partitions = [
            {"partition": int(number), "lag": lag, "task": task if now - time <= _SILENT_SECS else None}
            for number, (task, lag, time) in sorted(self._lags.items(), key=lambda item: int(item[0]))
        ]
        return {
            "lag": total,
            "unit": self.unit,
            "growth": self._growth(total, now),
            "late_rows": self._late,
            "next_cut": self._next_cut,
            "partitions": partitions,
        }

    def _growth(self, total: float, now: float) -> float | None:
        if (
            not self._samples
            or now - self._samples[-1][0] > _SILENT_SECS
            or self._samples[-1][0] - self._samples[0][0] < _WINDOW_SECS / 2
        ):
            return None
        (began, arrived, used), (ended, arrived_now, used_now) = self._samples[0], self._samples[-1]
        used, arrived = used_now - used, arrived_now - arrived
        growth = arrived / used if used > 0 else (float(arrived > 0) and 1e6)
        return min(growth, 1.0) if total <= used / (ended - began) * _SMALL_SECS else growth
