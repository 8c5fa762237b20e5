"""The status of a job in Prometheus' text format, version 0.0.4.

text(status, displays)          # "# TYPE ps_train_global_step gauge", "ps_train_global_step 1200.0" and so on, in lines

The format: https://github.com/prometheus/docs, "Exposition formats".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ps_train.base.gauge import Gauge, Sample
from ps_train.observe.status.display import Displays

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_PLAIN = {
    "step": ("global_step", "Global step."),
    "max_steps": ("max_steps", "Global step at which the job ends."),
    "loss": ("loss", "Loss of the newest step of the chief."),
    "steps_per_sec": ("steps_per_second", "Global steps per second."),
    "examples_per_sec": ("examples_per_second", "Examples per second of all workers."),
    "skipped": ("skipped_gradients_total", "Gradients that were not finite."),
    "dropped": ("dropped_gradients_total", "Gradients that came too late."),
    "staleness.p95": ("staleness_p95", "95th percentile of the staleness."),
    "staleness.conflict_rate": ("conflict_rate", "Share of updates with any staleness."),
    "waiting.share": ("waiting_share", "Share of the time spent waiting for other workers."),
}
_GAUGES = [Gauge(key, metric=metric, help=help) for key, (metric, help) in _PLAIN.items()]
"""Those of every job."""

_TASK_VALUES = {
    "cpu": ("cpu_cores", "Cores in use."),
    "rss_bytes": ("resident_memory_bytes", "Resident memory."),
    "sent_bytes_per_sec": ("sent_bytes_per_second", "Bytes sent over TCP connections."),
    "received_bytes_per_sec": ("received_bytes_per_second", "Bytes received over TCP connections."),
    "examples_per_sec": ("worker_examples_per_second", "Examples of a worker."),
    "heartbeat_age_secs": ("heartbeat_age_seconds", "Time since a worker's last heartbeat."),
    "variable_bytes": ("variable_bytes", "Bytes of the variables of a ps."),
}

_OF_A_PS = ("variable_bytes",)

_SECTIONS = {
    "job_info": "The job; always 1.",
    "state": "1 for the present state of the job.",
    "metric": "Newest metrics of an evaluation.",
    "slice_metric": "Newest metrics of the examples with a value of a field.",
    "task_state": "1 for the present state of a task.",
    "step_part_seconds": "Parts of the newest traced step of a worker.",
    "health_warning": "1 where a rule of health warns.",
}
"""Those with labels of their own."""


def described(displays: Displays) -> dict[str, str]:
    """Returns the names, after `ps_train_`, of all that a job may show, and their descriptions."""
    gauges = {gauge.metric: gauge.help for gauge in (*_GAUGES, *displays.every("gauges")) if gauge.metric}
    return {**gauges, **dict(_TASK_VALUES.values()), **_SECTIONS}


def text(status: Mapping[str, Any], displays: Displays) -> str:
    """Returns the content of /metrics for a status as `Board.status` gives it, with what features show."""
    lines: list[str] = []
    help_of = described(displays)
    for name, samples in _families(status, displays):
        shown = [f"ps_train_{name}{_labels(labels)} {float(value)!r}" for labels, value in samples if value is not None]
        if shown:
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP ps_train_{name} {help_of[name]}", f"# TYPE ps_train_{name} {kind}", *shown]
    return "\n".join(lines) + "\n"


def _families(status: Mapping[str, Any], displays: Displays) -> Iterable[tuple[str, list[Sample]]]:
    job = status["job"]
    info = {"model": job["model"], "update": job["update"], "version": job["ps_train"]}
    yield "job_info", [(info, 1)]
    yield "state", [({"state": status["state"]}, 1)]
    for gauge in (*_GAUGES, *displays.every("gauges")):
        if gauge.metric and (value := gauge.of(status)) is not None:
            yield gauge.metric, [*gauge.samples(value)]
    metrics: list[Sample] = [({"name": name}, value) for name, value in status["metrics"].items()]
    slices = status["slices"] or {"field": "", "rows": []}
    of_slices: list[Sample] = [
        ({"name": name, "field": slices["field"], "value": row["value"]}, number)
        for row in slices["rows"]
        for name, number in row["metrics"].items()
    ]
    yield "metric", metrics
    yield "slice_metric", of_slices
    yield from _families_of_tasks(status, displays)


def _families_of_tasks(status: Mapping[str, Any], displays: Displays) -> Iterable[tuple[str, list[Sample]]]:
    tasks = [*status["ps"], *status["workers"]]
    in_workers = {gauge.of(worker) for gauge in displays.every("processes") for worker in status["workers"]}
    up = [({"task": task["task"], "state": task["state"]}, 1) for task in tasks]
    yield "task_state", list(up)
    for key, (name, _) in _TASK_VALUES.items():
        # A process of two tasks is counted once.
        shown = tasks if key in _OF_A_PS else [task for task in tasks if task["task"] not in in_workers]
        yield name, [({"task": task["task"]}, task.get(key)) for task in shown]
    parts: list[Sample] = [
        ({"task": task, "part": part}, secs)
        for task, found in status["step_time"].items()
        for part, secs in found.items()
        if part not in ("step", "secs", "transfer")
    ]
    yield "step_part_seconds", parts
    rules: list[Sample] = [
        ({"rule": found["rule"], "task": found["task"]}, 1 if found["state"] == "warn" else 0)
        for found in status["health"]
        if found["state"] != "unknown"
    ]
    yield "health_warning", rules


def _labels(labels: Mapping[str, str]) -> str:
    shown = [f'{name}="{_escaped(str(value))}"' for name, value in labels.items()]
    return "{" + ",".join(shown) + "}" if shown else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
