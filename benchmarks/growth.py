"""`python -m benchmarks growth`: more and more workers, real traffic, compute replaced by a pause; and a model of it.

The model is calibrated from the runs with the fewest and with the most workers, and predicts those between.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks import machine, results
from benchmarks.contenders import Setting, contender_of
from benchmarks.plot import curves
from benchmarks.run import Measured, measure
from benchmarks.summary import short
from benchmarks.table import markdown
from benchmarks.workloads import workload_class
from ps_train.observe.status.event_model import Costs, recommended_ps, steps_per_sec, workers_at_saturation

WORKLOAD = "sleeper"
NUM_PS = (1, 2)
TOLERANCE = 0.15
_PS_CORES = 8
"""What the advice at the end supposes that a ps has."""


def run(options: argparse.Namespace) -> int:
    counts = [int(text) for text in options.workers.split(",")]
    found: dict[int, dict[int, list[dict[str, float]]]] = {ps: {n: [] for n in counts} for ps in NUM_PS}
    for _ in range(options.repeats):
        for num_ps, by_workers in found.items():
            for workers, values in by_workers.items():
                values.append(_point(num_ps, workers, options))
    medians = {ps: {n: _median(values) for n, values in by.items()} for ps, by in found.items()}
    record = {
        "date": results.today(),
        "machine": machine.machine(),
        "load_after": machine.load_average(),
        "pause_ms": options.pause_ms,
        "points": medians,
    }
    text, plot = report(record)
    results.store("growth", record, text, plot, options.results)
    print(text)
    return 0


def _point(num_ps: int, workers: int, options: argparse.Namespace) -> dict[str, float]:
    setting = Setting(WORKLOAD, 0, num_ps, workers, model_args=(f"pause_ms={options.pause_ms:g}",))
    found: Measured = measure(contender_of("ours-async"), setting, options.secs)
    a_step = workload_class(WORKLOAD).batch_size / 1000
    cpu = {"ps_cpu": found.cpu_secs["ps"] * a_step, "worker_cpu": found.cpu_secs["workers"] * a_step}
    return {"steps_per_sec": found.steps_per_sec, **cpu}


def _median(values: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(value[name] for value in values) for name in values[0]}


def calibrated(points: Mapping[int, Mapping[str, float]], pause: float) -> Costs:
    """CPU times are those with the most workers, when nothing is idle; the latency is what else one worker waits."""
    fewest, most = points[min(points)], points[max(points)]
    worker_cpu, ps_cpu = most["worker_cpu"], most["ps_cpu"]
    alone = min(points) / fewest["steps_per_sec"]
    return Costs(pause, max(0.0, alone - pause - worker_cpu - ps_cpu), worker_cpu, ps_cpu)


def report(record: Mapping[str, Any]) -> tuple[str, str]:
    """Markdown and SVG."""
    pause, cores = record["pause_ms"] / 1000, int(record["machine"]["cores"])
    rows: list[list[str]] = []
    series: dict[str, list[tuple[float, float]]] = {}
    advice = []
    for num_ps, points in record["points"].items():
        costs = calibrated(points, pause)
        predicted = {n: steps_per_sec(costs, n, int(num_ps), cores) for n in points}
        series[f"{num_ps} ps"] = [(float(n), one["steps_per_sec"]) for n, one in points.items()]
        series[f"{num_ps} ps, model"] = [(float(n), rate) for n, rate in predicted.items()]
        for n, one in points.items():
            off = predicted[n] / one["steps_per_sec"] - 1
            verdict = "yes" if abs(off) <= TOLERANCE else "NO"
            rate = short(one["steps_per_sec"])
            row = [f"{num_ps}", f"{n}", rate, short(predicted[n]), f"{off:+.0%}", verdict]
            rows.append([*row, f"{1e3 * one['ps_cpu']:.1f}", f"{1e3 * one['worker_cpu']:.1f}"])
        if int(num_ps) == 1:
            full = workers_at_saturation(costs, 1, _PS_CORES)
            advice.append(
                f"By the model, with every task on a machine of its own and {_PS_CORES} cores for a ps: one ps "
                f"saturates at {full} workers; 64 workers want --num_ps={recommended_ps(costs, 64, _PS_CORES)}."
            )
    head = [
        "ps",
        "workers",
        "steps/s",
        "model",
        "off",
        f"within {TOLERANCE:.0%}",
        "ps CPU ms/step",
        "worker CPU ms/step",
    ]
    lines = [f"# Growth, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += [f"A pause of {record['pause_ms']:g} ms in the place of compute; all tasks share this machine.", ""]
    text = "\n".join([*lines, markdown(head, rows), "", *advice, ""])
    return text, curves("steps/s of all workers", "workers", series)
