"""Lag of data without an end: what is left to read of each partition, and whether it grows.

    lag = StreamLag()
    lag.update("worker:0", {"0": (1200.0, 8000.0)}, now)    # left to read, and read so far by this worker
    lag.read(now)       # {"lag": 1200.0, "unit": "rows", "growth": 0.9, "partitions": [{"partition": 0, ...}], ...}

The worker of a partition measures both in the unit of the source.  What arrives is what is read, and the change of what
is left.  A job keeps up with its source if it reads as fast as that.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ps_train.base.errors import shown
from ps_train.base.gauge import Gauge, Sample
from ps_train.base.untrusted import UntrustedError, is_of
from ps_train.observe.status.display import Display

_WINDOW_SECS = 60.0
_SMALL_SECS = 10.0
"""A lag that is read within this time is small, whether it grows or not."""

_SILENT_SECS = 30.0


def _is_lag(partition: str, values: Sequence[float]) -> bool:
    is_number = partition.isascii() and partition.isdigit() and len(partition) < 10
    return is_number and len(values) == 2 and min(values) >= 0


def _lags(stream: Mapping[str, Any]) -> Iterable[Sample]:
    return [({"partition": str(one["partition"]), "unit": stream["unit"]}, one["lag"]) for one in stream["partitions"]]


class StreamLag(Display):
    """The lag of all partitions, from the measurements of the workers that read them."""

    gauges = (
        Gauge("stream", metric="partition_lag", help="What is left to read of a partition of data without an end.",
              samples=_lags),
        Gauge("stream.growth", metric="lag_growth", help="What arrived over what was read in the last minute."),
    )  # fmt: skip

    def __init__(self) -> None:
        self._lags: dict[str, tuple[str, float, float]] = {}  # task, lag and time of the newest measurement
        self._read: dict[tuple[str, str], float] = {}
        self._arrived = self._used = 0.0
        self._samples: deque[tuple[float, float, float]] = deque()
        self._unit = "rows"

    def measured(self, task: str, record: Mapping[str, Any]) -> None:
        """Takes in `lag`, for each partition what is left to read and what was read, and `lag_unit`."""
        lags, unit = record.get("lag") or {}, record.get("lag_unit") or "rows"
        is_known = is_of("dict[str, list[float]]", lags) and isinstance(unit, str)
        if not is_known or not all(_is_lag(*one) for one in lags.items()):
            raise UntrustedError(f"it has the lag {shown(lags)} in {shown(unit)}")
        if lags:
            self._unit = unit
            self.update(task, lags, time.monotonic())

    def values(self, status: Mapping[str, Any], now: float) -> Mapping[str, Any]:
        """Returns the section `stream`."""
        return {"stream": self.read(now)}

    def update(self, task: str, partitions: Mapping[str, Sequence[float]], now: float) -> None:
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

    def read(self, now: float) -> dict[str, Any] | None:
        """Returns the lag of the partitions and its growth; None where no worker reads such data.

        The growth is what arrived over what was read in the last minute: above 1 the lag grows.  It is at most 1 for a
        small lag, and None while it is not known, such as where no worker reads.
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
            "unit": self._unit,
            "growth": self._growth(total, now),
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
