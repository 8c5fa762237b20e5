"""The status of a job in Prometheus' text format, version 0.0.4.

text(status)          # "# TYPE ps_train_global_step gauge", "ps_train_global_step 1200.0" and so on, in lines

The format: https://github.com/prometheus/docs, "Exposition formats".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[Mapping[str, str], Any]
"""Labels and a value; a value of None is left out."""

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


def text(status: Mapping[str, Any]) -> str:
    """Returns the content of /metrics for a status as `Board.status` gives it."""
    lines: list[str] = []
    for name, kind, help, samples in _families(status):
        shown = [f"ps_train_{name}{_labels(labels)} {float(value)!r}" for labels, value in samples if value is not None]
        if shown:
            lines += [f"# HELP ps_train_{name} {help}", f"# TYPE ps_train_{name} {kind}", *shown]
    return "\n".join(lines) + "\n"


def _families(status: Mapping[str, Any]) -> Iterable[tuple[str, str, str, list[Sample]]]:
    job = status["job"]
    info = {"model": job["model"], "update": job["update"], "version": job["ps_train"]}
    yield "job_info", "gauge", "The job; always 1.", [(info, 1)]
    yield "state", "gauge", "1 for the present state of the job.", [({"state": status["state"]}, 1)]
    for name, key, kind, help in (
        ("global_step", "step", "gauge", "Global step."),
        ("max_steps", "max_steps", "gauge", "Global step at which the job ends."),
        ("loss", "loss", "gauge", "Loss of the newest step of the chief."),
        ("steps_per_second", "steps_per_sec", "gauge", "Global steps per second."),
        ("examples_per_second", "examples_per_sec", "gauge", "Examples per second of all workers."),
        ("batch_size", "batch_size", "gauge", "Examples in a batch, where the size follows the network."),
        ("max_steps_ahead", "max_steps_ahead", "gauge", "Lead of workers, where it follows the stragglers."),
        ("backup_workers", "backup_workers", "gauge", "Backup workers, where they follow the stragglers."),
        ("skipped_gradients_total", "skipped", "counter", "Gradients that were not finite."),
        ("dropped_gradients_total", "dropped", "counter", "Gradients that came too late."),
    ):
        yield name, kind, help, [({}, status[key])]
    codec = status["push_codec"]
    yield (
        "push_codec",
        "gauge",
        "1 for the present codec of pushes, where it follows the network.",
        [({"codec": codec}, 1 if codec else None)],
    )
    stale, waiting = status["staleness"] or {}, status["waiting"] or {}
    yield "staleness_p95", "gauge", "95th percentile of the staleness.", [({}, stale.get("p95"))]
    yield "conflict_rate", "gauge", "Share of updates with any staleness.", [({}, stale.get("conflict_rate"))]
    yield "waiting_share", "gauge", "Share of the time spent waiting for other workers.", [({}, waiting.get("share"))]
    metrics: list[Sample] = [({"name": name}, value) for name, value in status["metrics"].items()]
    slices = status["slices"] or {"field": "", "rows": []}
    of_slices: list[Sample] = [
        ({"name": name, "field": slices["field"], "value": row["value"]}, number)
        for row in slices["rows"]
        for name, number in row["metrics"].items()
    ]
    yield "metric", "gauge", "Newest metrics of an evaluation.", metrics
    yield "slice_metric", "gauge", "Newest metrics of the examples with a value of a field.", of_slices
    stream: dict[str, Any] = status["stream"] or {"partitions": []}
    lags: list[Sample] = [
        ({"partition": str(one["partition"]), "unit": stream["unit"]}, one["lag"]) for one in stream["partitions"]
    ]
    yield "partition_lag", "gauge", "What is left to read of a partition of data without an end.", lags
    yield "lag_growth", "gauge", "What arrived over what was read in the last minute.", [({}, stream.get("growth"))]
    help = "Rows that came after the cut of their event time."
    yield "late_rows_total", "counter", help, [({}, stream.get("late_rows"))]
    help = "Event time of the next checkpoint by event time, since 1970."
    yield "next_cut_timestamp_seconds", "gauge", help, [({}, stream.get("next_cut"))]
    yield from _families_of_tasks(status)


def _families_of_tasks(status: Mapping[str, Any]) -> Iterable[tuple[str, str, str, list[Sample]]]:
    tasks = [*status["ps"], *status["workers"]]
    on_workers = {worker["ps"] for worker in status["workers"]}
    up = [({"task": task["task"], "state": task["state"]}, 1) for task in tasks]
    yield "task_state", "gauge", "1 for the present state of a task.", list(up)
    for key, (name, help) in _TASK_VALUES.items():
        # A process that is a ps and a worker is counted once.
        shown = tasks if key in _OF_A_PS else [task for task in tasks if task["task"] not in on_workers]
        yield name, "gauge", help, [({"task": task["task"]}, task.get(key)) for task in shown]
    parts: list[Sample] = [
        ({"task": task, "part": part}, secs)
        for task, found in status["step_time"].items()
        for part, secs in found.items()
        if part not in ("step", "secs", "transfer")
    ]
    yield "step_part_seconds", "gauge", "Parts of the newest traced step of a worker.", parts
    rules: list[Sample] = [
        ({"rule": found["rule"], "task": found["task"]}, 1 if found["state"] == "warn" else 0)
        for found in status["health"]
        if found["state"] != "unknown"
    ]
    yield "health_warning", "gauge", "1 where a rule of health warns.", rules


def _labels(labels: Mapping[str, str]) -> str:
    shown = [f'{name}="{_escaped(str(value))}"' for name, value in labels.items()]
    return "{" + ",".join(shown) + "}" if shown else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
