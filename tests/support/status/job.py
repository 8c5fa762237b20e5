"""The board of a small job, and statuses as it gives them."""

from __future__ import annotations

import time

import numpy as np

from ps_train.base.console import Progress
from ps_train.base.lifecycle import Recorder, attach
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.config.job import Job
from ps_train.engine.updates.counters.counter_values import RunCounterValues
from ps_train.engine.variables.plan import VariableSpec, make_plan
from ps_train.observe.status.board import Board
from ps_train.training.tasks.displays import displays

PS = ("a:1", "b:1")
WORKERS = ("c:1", "d:1")


class Liveness:
    """The silent ps, in place of a `PsLiveness`."""

    def __init__(self, *silent: str) -> None:
        self.silent = list(silent)

    def silent_ps(self) -> list[str]:
        return self.silent


def job_of(**fields):
    return Job(**{"model": "m:M", "ps_hosts": PS, "worker_hosts": WORKERS, "max_steps": 2000, **fields})


def board_of(directory="", **fields):
    job = job_of(**fields)
    specs = [VariableSpec("w", (1000, 10), "float32", 4), VariableSpec("b", (10,), "float32", 4)]
    cluster = Cluster.of(job)
    recorder = Recorder()
    attach(recorder)
    board = Board(job, cluster, recorder, str(directory), displays())
    board.planned(make_plan(specs, len(cluster.ps)))
    return board


def counters_of(update="async", stale=(60, 40), skipped=0, dropped=0):
    """Both workers have the same staleness; under sync and bounded a tenth of the time is waiting."""
    rows = np.array([stale, stale], np.int64)
    waiting = np.array([[1.0, 10.0], [1.0, 10.0]])
    return RunCounterValues(update, ["worker:0", "worker:1"], 2, 64000.0, skipped, dropped, rows, waiting)


def progress_of(step=1000, **changes):
    values = {"max_steps": 2000, "loss": 0.5, "steps_per_sec": 100.0, "examples_per_sec": 3200.0, **changes}
    return Progress(step, **values)


def step_time(secs=0.01, step=900, **parts):
    """The parts that are not given are zero, and `compute` is the rest."""
    found = dict.fromkeys(("input", "pull", "compute", "push", "wait", "update", "other"), 0.0) | parts
    found["compute"] += secs - sum(found.values())
    return {"step": step, "secs": secs, **found}


def a_status(**changes):
    """The status of a healthy job of two ps and two workers in full swing, with some keys changed."""
    ps = {"address": "a:1", "state": "serving", "cpu": 0.4, "cores": 8, "rss_bytes": 3e8, "memory_limit_bytes": 1.6e10}
    ps |= {"sent_bytes_per_sec": 1e6, "received_bytes_per_sec": 1e6, "variables": 1, "variable_bytes": 20_000}
    worker = {"state": "training", "heartbeat_age_secs": 0.4, "cpu": 0.9, "rss_bytes": 3e8, "steps_per_sec": 50.0}
    worker |= {"steps": 500, "examples_per_sec": 1600.0, "location": "worker on host-b, pid 42"}
    now = time.time()
    status = {
        "time": now,
        "elapsed_secs": 100.0,
        "state": "training",
        "step": 1000,
        "steps_per_sec": 100.0,
        "loss_rise": 0.0,
        "skipped": 0,
        "dropped": 0,
        "step_time": {task: step_time(pull=0.0005, push=0.0005) for task in ("worker:0", "worker:1")},
        "staleness": {"mean": 0.4, "p95": 1, "max": 2, "conflict_rate": 0.4, "histogram": {"0": 60, "1": 40}},
        "stream": {
            "lag": 900.0,
            "unit": "rows",
            "growth": 1.0,
            "late_rows": 2.0,
            "next_cut": 1795737600.0,
            "partitions": [
                {"partition": 0, "lag": 400.0, "task": "worker:0"},
                {"partition": 1, "lag": 500.0, "task": None},
            ],
        },
        "waiting": None,
        "ps": [{**ps, "task": task, "share": 0.5} for task in ("ps:0", "ps:1")],
        "workers": [{**worker, "task": task} for task in ("worker:0", "worker:1")],
        "save": {"count": 2, "hold_secs_mean": 0.01, "hold_secs_max": 0.01},
        "events": [{"time": now - 30, "kind": "saved", "task": "", "text": "checkpoint of step 900"}],
    }
    return {**status, **changes}
