"""The tasks of a job as their heartbeats show them, for the status page.

tasks = TaskBoard(cluster, lost_secs=10, recorder=recorder, displays=displays)
tasks.planned(plan)
tasks.read_records(0, items, time.monotonic())
tasks.workers(time.monotonic()), tasks.ps()
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ps_train.base.lifecycle import Event, Recorder, from_age, record_event
from ps_train.base.untrusted import UntrustedError, parse_json
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership.liveness import LivenessTracker
from ps_train.cluster.membership.ps_liveness import PsLiveness
from ps_train.cluster.membership.records import TELEMETRY, TaskState, TaskStatus, task_statuses
from ps_train.cluster.membership.telemetry import Rates, checked_telemetry
from ps_train.engine.variables.plan import Plan, make_plan
from ps_train.observe.status.display import Displays

_GONE = (TaskState.INPUT_ENDED, TaskState.LEAVING, TaskState.LEFT)
_MEASURED = ("cpu", "sent_bytes_per_sec", "received_bytes_per_sec")
_RECORDED = ("cores", "rss_bytes", "memory_limit_bytes")

ENDED = "ended"
"""The state of each task of a job that has ended, unless it was lost or had left before."""

WAITING_FOR = "waiting for "
"""The begin of the state of a task that waits for something before it trains; see `Display.waits_for`."""

FRESH_SECS = 5.0
"""Seconds for which the measurements of a task hold.  It sends them twice a second while it lives."""


class TaskBoard:
    """The last known state of every task, and its measurements while it sends them.  Safe to use from several threads.

    Args:
      cluster: the tasks at the start.
      lost_secs: seconds of silence after which a worker counts as lost.
      recorder: gets the events that other tasks send.
      displays: what features show of tasks.

    Attributes:
      num_ps: number of ps at the start, and `num_workers` that of the training tasks.
    """

    def __init__(self, cluster: Cluster, lost_secs: float, recorder: Recorder, displays: Displays) -> None:
        self._cluster, self._lost_secs, self._recorder, self._displays = cluster, lost_secs, recorder, displays
        self._plan = make_plan([], len(cluster.ps))
        self._statuses: dict[str, TaskStatus] = {}
        self._telemetry: dict[str, Mapping[str, Any]] = {}
        self._rates: dict[str, Rates] = {}
        self._measured: dict[str, dict[str, float | None]] = {}
        self._silent_ps: Callable[[], Sequence[str]] = list
        self._known: set[tuple[str, str, int]] = set()
        self._tracker, self._heard, self._lock = LivenessTracker(), LivenessTracker(), threading.Lock()
        self._read_at: float | None = None
        self._has_ended = False
        self.num_ps, self.num_workers = len(cluster.ps), cluster.num_replicas

    def planned(self, plan: Plan) -> None:
        """Takes in the placement of the variables."""
        with self._lock:
            self._plan = plan
            for display in self._displays:
                display.planned(plan, self._cluster)

    def watch(self, liveness: PsLiveness) -> None:
        """Shows from now on which ps do not answer."""
        self._silent_ps = liveness.silent_ps

    def read_records(self, index: int, items: Mapping[str, str], now: float) -> None:
        """Takes in the records of the store of a ps, at `now` seconds of a monotonic clock."""
        with self._lock:
            if TELEMETRY in items:
                with contextlib.suppress(UntrustedError):
                    self._measure(f"ps:{index}", parse_json(items[TELEMETRY]), now)
            if index == 0:
                self._read_workers(items, now)

    def end(self) -> None:
        """Takes in the end of the job: no task reports any more."""
        with self._lock:
            self._has_ended = True

    def _read_workers(self, items: Mapping[str, str], now: float) -> None:
        if self._read_at is not None and now - self._read_at > FRESH_SECS:
            self._tracker.extend(now - self._read_at)  # ps 0 was silent: its silence is not the workers'
        self._read_at = now
        for display in self._displays:
            display.read_records(items)
        for status in task_statuses(items):
            self._update(status, now)

    def _update(self, status: TaskStatus, now: float) -> None:
        before = self._statuses.get(status.task)
        if before is not None and before.state == TaskState.PREPARING:
            before = None  # it had not joined
        if status.state != TaskState.PREPARING and (before is None or before.process_id != status.process_id):
            kind = "joined" if before is None else "restarted"
            record_event(kind, f"{status.location()} {'joined' if before is None else 'took its place'}", status.task)
        known = self._statuses.get(status.task)
        if known is not None and known.process_id != status.process_id:
            self._telemetry.pop(status.task, None)  # another process says nothing of this one
        self._statuses[status.task] = status
        self._tracker.silent_secs(status.task, status.sign_of_life, now)
        self._heard.silent_secs(status.task, status.sign_of_life, now)
        if status.telemetry:
            self._measure(status.task, status.telemetry, now)

    def _measure(self, task: str, record: Mapping[str, Any], now: float) -> None:
        """Takes in the telemetry of a task; ignores one of another form."""
        try:
            record = checked_telemetry(record)
            for display in self._displays:
                display.measured(task, record)
            self._measured[task] = self._rates.setdefault(task, Rates()).update(record)
            self._telemetry[task] = record
            self._heard.silent_secs(f"telemetry of {task}", record["uptime"], now)
            found = [from_age(each, time.time()) for each in record.get("events", ())]
        except (KeyError, TypeError, ValueError):
            return
        for event in found if task != str(self._cluster.chief) else ():  # the chief's are in its recorder
            self._add_once(event)

    def _add_once(self, event: Event) -> None:
        keys = {(event.kind, event.text, round(event.time) + off) for off in (-1, 0, 1)}
        if not keys & self._known:  # a task sends its newest events again with each heartbeat
            self._recorder.add(event)
        self._known |= keys

    def examples_per_sec(self, now: float) -> dict[str, float | None]:
        """Returns the examples per second of each worker that reports, at `now` seconds of a monotonic clock."""
        with self._lock:
            return {task: self._measured[task]["examples_per_sec"] for task in sorted(self._statuses, key=_order)
                    if self._reports(task, now)}  # fmt: skip

    def step_times(self, now: float) -> dict[str, Mapping[str, float]]:
        """Returns the parts of the newest traced step of each worker that reports."""
        with self._lock:
            reporting = [task for task in sorted(self._telemetry, key=_order) if self._reports(task, now)]
            found = {task: self._telemetry[task].get("step_time") for task in reporting}
        return {task: parts for task, parts in found.items() if isinstance(parts, Mapping)}

    def complete(self, status: dict[str, Any], now: float) -> None:
        """Adds what the displays show to a status at `now` seconds of a monotonic clock."""
        with self._lock:
            for display in self._displays:
                status |= display.values(status, math.inf if self._has_ended else now)

    def ps(self, now: float) -> list[dict[str, Any]]:
        """Returns the present state of each ps, at `now` seconds of a monotonic clock."""
        silent = {name.partition(" ")[0] for name in self._silent_ps()}
        with self._lock:
            addresses = [str(address) for address in self._cluster.ps]
            return [
                self._of_ps(index, address, f"ps:{index}" in silent, now) for index, address in enumerate(addresses)
            ]

    def workers(self, now: float) -> list[dict[str, Any]]:
        """Returns the present state of each training task, at `now` seconds of a monotonic clock."""
        is_silent = any(name.partition(" ")[0] == "ps:0" for name in self._silent_ps())
        with self._lock:
            # While ps 0 is silent no worker is heard of: the states are those of the last look.
            seen_at = now if self._read_at is None or not is_silent else self._read_at
            expected = {str(task) for task in self._cluster.replicas()}
            return [
                self._of_worker(task, now, seen_at) for task in sorted(expected | self._statuses.keys(), key=_order)
            ]

    def _reports(self, task: str, now: float) -> bool:
        """Returns whether a task sends its measurements; those of another one say nothing about the present."""
        record = self._telemetry.get(task)
        if record is None or self._has_ended:
            return False
        return self._heard.silent_secs(f"telemetry of {task}", record["uptime"], now) <= FRESH_SECS

    def _of_ps(self, index: int, address: str, is_silent: bool, now: float) -> dict[str, Any]:
        task, sizes = f"ps:{index}", self._plan.bytes_per_ps()
        return {
            "task": task,
            "address": address,
            "state": "silent" if is_silent else ENDED if self._has_ended else "serving",
            **self._usage(task, now if not is_silent else None),
            "variables": len(self._plan.slices_on(index)),
            "variable_bytes": sizes[index],
            "share": sizes[index] / sum(sizes) if sum(sizes) else 0.0,
        }

    def _of_worker(self, task: str, now: float, seen_at: float) -> dict[str, Any]:
        status = self._statuses.get(task)
        age = None if status is None or self._has_ended else self._heard.silent_secs(task, status.sign_of_life, now)
        state = "absent" if status is None else self._state_of(status, seen_at)
        reports = state != "lost" and self._reports(task, now)
        measured = self._measured[task] if reports else {}
        found = {
            "task": task,
            "location": status.location() if status is not None else task,
            "state": state,
            "heartbeat_age_secs": age,
            "is_chief": task == str(self._cluster.chief),
            **self._usage(task, now if reports else None),
            "steps": self._telemetry[task].get("steps") if reports else None,
            "steps_per_sec": measured.get("steps_per_sec"),
            "examples_per_sec": measured.get("examples_per_sec"),
        }
        for display in self._displays:
            found |= display.of_worker(task, status, state)
        return found

    def _state_of(self, status: TaskStatus, seen_at: float) -> str:
        if not self._lives(status, seen_at) and status.state not in _GONE:
            return "lost"
        if self._has_ended:
            return str(status.state) if status.state == TaskState.LEFT else ENDED
        if status.state in (TaskState.STARTING, TaskState.RECOVERING):
            for display in self._displays:
                if awaited := display.waits_for(status, lambda task: self._living(task, seen_at)):
                    return WAITING_FOR + awaited
        return str(status.state)

    def _lives(self, status: TaskStatus, seen_at: float) -> bool:
        return self._tracker.silent_secs(status.task, status.sign_of_life, seen_at) <= self._lost_secs

    def _living(self, task: str, seen_at: float) -> TaskStatus | None:
        status = self._statuses.get(task)
        return status if status is not None and self._lives(status, seen_at) else None

    def _usage(self, task: str, now: float | None) -> dict[str, Any]:
        """Returns the resources that a task uses at `now`; None for a task that does not report then."""
        reports = now is not None and self._reports(task, now)
        record, measured = (self._telemetry[task], self._measured[task]) if reports else ({}, {})
        found: dict[str, Any] = {name: measured.get(name) for name in _MEASURED}
        return {**found, **{name: record.get(name) for name in _RECORDED}}


def _order(task: str) -> tuple[str, int]:
    name, _, index = task.partition(":")
    return name, int(index) if index.isdigit() else 0
