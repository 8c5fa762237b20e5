"""Telemetry: the measurements that each task sends with its heartbeats, for the chief's status page.

    source = TelemetrySource(recorder)                # in each task
    source.add(steps=8, examples=256.0)               # a worker, as it goes on
    source.include(lambda: {"step_time": {"secs": 0.01}})
    record = source.read()                            # plain values for JSON, well below 4 KiB

    rates = Rates()                                   # in the chief, one for each task
    rates.update(record)                              # {"cpu": 0.4, "steps_per_sec": 60.0, ...}

Each record has the sender's own uptime, so rates do not depend on when it is read, or on another clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ps_train.base.errors import shown
from ps_train.base.lifecycle import Recorder, with_ages
from ps_train.base.process_stats import ProcessStats, available_cores, memory_limit
from ps_train.base.untrusted import UntrustedError, is_of

_NEWEST_EVENTS, _MOST, _LONGEST_NAME = 5, 1e18, 20
_RATES = {
    "cpu_secs": "cpu",
    "sent_bytes": "sent_bytes_per_sec",
    "received_bytes": "received_bytes_per_sec",
    "steps": "steps_per_sec",
    "examples": "examples_per_sec",
}
"""Growing values of a record, and the names of their rates."""


_NUMBERS = ("uptime", "cores", "rss_bytes", "memory_limit_bytes", *_RATES)


def checked_telemetry(record: Any) -> dict[str, Any]:
    """Returns the values of another task's record; raises UntrustedError if one is of another type.

    What parts of the task have included is checked for its form only: finite numbers and short names, in lists and
    objects.
    """
    if not isinstance(record, dict):
        raise UntrustedError(f"it is {shown(record)} and not a JSON object")
    numbers = {name: record[name] for name in _NUMBERS if record.get(name) is not None}
    times, events = record.get("step_time") or {}, record.get("events") or []
    if not is_of("list[dict]", events):
        raise UntrustedError(f"its events are {shown(events)}")
    for values in (numbers, times, *({"age": event.get("age")} for event in events)):
        if not is_of("dict[str, float]", values) or not _is_plain(values):
            raise UntrustedError(f"it has the measurements {shown(values)}")
    known = (*_NUMBERS, "step_time", "events")
    included = {name: value for name, value in record.items() if name not in known and value is not None}
    if not _is_plain(included):
        raise UntrustedError(f"it has the measurements {shown(included)}")
    return {**included, **numbers, "step_time": times or None, "events": events}


def _is_plain(value: Any, depth: int = 3) -> bool:
    if isinstance(value, dict | list):
        each = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(_is_plain(one, depth - 1) for one in each)
    if isinstance(value, str):
        return value.isidentifier() and len(value) <= _LONGEST_NAME
    return is_of("float", value) and abs(value) < _MOST


class TelemetrySource:
    """The measurements of one task.

    Args:
      recorder: has the task's events; None for none.

    Attributes:
      steps: steps that the task has made.
      examples: examples that it has used.
    """

    def __init__(self, recorder: Recorder | None = None) -> None:
        self._recorder, self._stats = recorder, ProcessStats()
        self.steps, self.examples = 0, 0.0
        self._others: list[Callable[[], Mapping[str, Any]]] = []

    def include(self, read: Callable[[], Mapping[str, Any]]) -> None:
        """Adds what a part of the task measures; any thread.

        Args:
          read: returns values by name: numbers and short names, in lists and objects; a few, since a record stays
            small.  `step_time` has the parts of the newest traced step (help: reference#status-api).
        """
        self._others.append(read)

    def add(self, steps: int, examples: float) -> None:
        """Counts steps and examples of the worker."""
        self.steps, self.examples = self.steps + steps, self.examples + examples

    def read(self) -> dict[str, Any]:
        """Returns the present measurements; never raises an OSError."""
        found: dict[str, Any] = {"uptime": time.monotonic(), "cores": available_cores(), **self._stats.read()}
        found |= {"steps": self.steps, "examples": self.examples, "memory_limit_bytes": memory_limit()}
        for read in self._others:
            found |= read()
        if self._recorder is not None and (events := self._recorder.events()[-_NEWEST_EVENTS:]):
            found["events"] = with_ages(events, time.time())
        return found


class Rates:
    """Rates of one task, between the records that it sends.  A new process begins anew."""

    _WINDOW_SECS = 5.0

    def __init__(self) -> None:
        self._before: list[Mapping[str, Any]] = []

    def update(self, record: Mapping[str, Any]) -> dict[str, float | None]:
        """Takes in a record; returns the rates over about the last 5 s, None where they are not known yet."""
        kept = self._before
        if kept and (record["uptime"] < kept[-1]["uptime"] or record["cpu_secs"] < kept[-1]["cpu_secs"]):
            kept = []
        if not kept or record["uptime"] > kept[-1]["uptime"]:
            kept = [*kept, record]
        while len(kept) > 2 and kept[1]["uptime"] <= record["uptime"] - self._WINDOW_SECS:
            kept = kept[1:]
        self._before = kept
        # The time before a task's first step says nothing of the rate of its steps.
        working = [one for one in kept if one.get("steps")]
        first = {"steps": working[0], "examples": working[0]} if len(working) > 1 else {}
        return {rate: _rate(name, first.get(name, kept[0]), kept[-1]) for name, rate in _RATES.items()}


def _rate(name: str, first: Mapping[str, Any], last: Mapping[str, Any]) -> float | None:
    secs = last["uptime"] - first["uptime"]
    return max(0.0, last.get(name, 0.0) - first.get(name, 0.0)) / secs if secs > 0 else None
