"""The tasks of a job as their heartbeats show them, for the status page.

tasks = TaskBoard(cluster, plan, lost_secs=10, recorder=recorder)
tasks.read_records(0, items, time.monotonic())
tasks.workers(time.monotonic()), tasks.ps()
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ps_train.base.lifecycle import Event, Recorder, from_age, record_event
from ps_train.base.untrusted import UntrustedError, parse_json
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership.liveness import LivenessTracker
from ps_train.cluster.membership.records import TELEMETRY, TaskState, TaskStatus, task_statuses
from ps_train.cluster.membership.telemetry import Rates, checked_telemetry
from ps_train.engine.variables.plan import Plan
from ps_train.observe.status.stream_lag import StreamLag

_GONE = (TaskState.INPUT_ENDED, TaskState.LEAVING, TaskState.LEFT)
_MEASURED = ("cpu", "sent_bytes_per_sec", "received_bytes_per_sec")


class TaskBoard:
    """The last known state of every task.  Safe to use from several threads.

    Args:
      cluster: the tasks at the start.
      plan: placement of the variables.
      lost_secs: seconds of silence after which a worker counts as lost.
      recorder: gets the events that other tasks send.

    Attributes:
      silent_ps: returns the names, such as "ps:1 (b:2222)", of the ps that do not answer.
    """

    def __init__(self, cluster: Cluster, plan: Plan, lost_secs: float, recorder: Recorder) -> None:
        self._cluster, self._plan, self._lost_secs, self._recorder = cluster, plan, lost_secs, recorder
        self._statuses: dict[str, TaskStatus] = {}
        self._telemetry: dict[str, Mapping[str, Any]] = {}
        self._rates: dict[str, Rates] = {}
        self._measured: dict[str, dict[str, float | None]] = {}
        self._stream = StreamLag()
        self.silent_ps: Callable[[], Sequence[str]] = list
        self._known: set[tuple[str, str, int]] = set()
        self._tracker, self._lock = LivenessTracker(), threading.Lock()
        self.num_ps, self.num_workers = len(cluster.ps), cluster.num_replicas

    def read_records(self, index: int, items: Mapping[str, str], now: float) -> None:
        """Takes in the records of the store of a ps, at `now` seconds of a monotonic clock."""
        with self._lock:
            if TELEMETRY in items:
                with contextlib.suppress(UntrustedError):
                    self._measure(f"ps:{index}", parse_json(items[TELEMETRY]))
            for status in task_statuses(items) if index == 0 else ():
                self._update(status, now)

    def _update(self, status: TaskStatus, now: float) -> None:
        before = self._statuses.get(status.task)
        if before is not None and before.state == TaskState.PREPARING:
            before = None  # it had not joined
        if status.state != TaskState.PREPARING and (before is None or before.process_id != status.process_id):
            kind = "joined" if before is None else "restarted"
            record_event(kind, f"{status.location()} {'joined' if before is None else 'took its place'}", status.task)
        self._statuses[status.task] = status
        self._tracker.silent_secs(status.task, status.sign_of_life, now)
        if status.telemetry:
            self._measure(status.task, status.telemetry)

    def _measure(self, task: str, record: Mapping[str, Any]) -> None:
        """Takes in the telemetry of a task; ignores one of another form."""
        try:
            record = checked_telemetry(record)
            self._measured[task] = self._rates.setdefault(task, Rates()).update(record)
            self._telemetry[task] = record
            if record.get("lag"):
                self._stream.unit = record["lag_unit"]
                self._stream.update(task, record["lag"], time.monotonic())
                if "next_cut_ms" in record:
                    self._stream.update_cuts(task, record.get("late_rows", 0), record["next_cut_ms"])
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

    def examples_per_sec(self) -> dict[str, float | None]:
        """Returns the examples per second of each worker that has sent its measurements."""
        with self._lock:
            return {task: self._measured[task]["examples_per_sec"] for task in sorted(self._statuses, key=_order)
                    if task in self._measured}  # fmt: skip

    def step_times(self) -> dict[str, Mapping[str, float]]:
        """Returns the parts of the newest traced step of each worker."""
        with self._lock:
            found = {task: self._telemetry[task].get("step_time") for task in sorted(self._telemetry, key=_order)}
        return {task: parts for task, parts in found.items() if isinstance(parts, Mapping)}

    def stream(self, now: float) -> dict[str, Any] | None:
        """Returns the lag of data without an end at `now` seconds of a monotonic clock; None for other data."""
        with self._lock:
            return self._stream.read(now)

    def ps(self) -> list[dict[str, Any]]:
        """Returns the present state of each ps."""
        silent = {name.partition(" ")[0] for name in self.silent_ps()}
        with self._lock:
            addresses = [str(address) for address in self._cluster.ps]
            return [self._of_ps(index, address, f"ps:{index}" in silent) for index, address in enumerate(addresses)]

    def workers(self, now: float) -> list[dict[str, Any]]:
        """Returns the present state of each training task, at `now` seconds of a monotonic clock."""
        with self._lock:
            expected = {str(task) for task in self._cluster.replicas()}
            return [self._of_worker(task, now) for task in sorted(expected | self._statuses.keys(), key=_order)]

    def _of_ps(self, index: int, address: str, is_silent: bool) -> dict[str, Any]:
        task, sizes = f"ps:{index}", self._plan.bytes_per_ps()
        return {
            "task": task,
            "address": address,
            "state": "silent" if is_silent else "serving",
            **self._usage(task),
            "variables": len(self._plan.slices_on(index)),
            "variable_bytes": sizes[index],
            "share": sizes[index] / sum(sizes) if sum(sizes) else 0.0,
        }

    def _of_worker(self, task: str, now: float) -> dict[str, Any]:
        status, measured = self._statuses.get(task), self._measured.get(task, {})
        age = None
        state: str = "absent"
        if status is not None:
            age = self._tracker.silent_secs(task, status.sign_of_life, now)
            state = "lost" if age > self._lost_secs and status.state not in _GONE else str(status.state)
        return {
            "task": task,
            "location": status.location() if status is not None else task,
            "state": state,
            "heartbeat_age_secs": age,
            "is_chief": task == str(self._cluster.chief),
            **self._usage(task),
            "steps": self._telemetry.get(task, {}).get("steps"),
            "steps_per_sec": measured.get("steps_per_sec"),
            "examples_per_sec": measured.get("examples_per_sec"),
        }

    def _usage(self, task: str) -> dict[str, Any]:
        record, measured = self._telemetry.get(task, {}), self._measured.get(task, {})
        found: dict[str, Any] = {name: measured.get(name) for name in _MEASURED}
        return {**found, **{name: record.get(name) for name in ("cores", "rss_bytes", "memory_limit_bytes")}}


def _order(task: str) -> tuple[str, int]:
    name, _, index = task.partition(":")
    return name, int(index) if index.isdigit() else 0
