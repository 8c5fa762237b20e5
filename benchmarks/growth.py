"""`python -m benchmarks growth`: more and more workers, real traffic, compute replaced by a pause; and a model of it.

The model is calibrated from the runs with the fewest and with the most workers, and predicts those between.  Besides
the cores of a ps, two more limits hold for tasks on machines of their own: the line of a ps, which carries every value
each way, and the update lock, which one worker holds at a time.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import statistics
import tempfile
from collections.abc import Mapping
from typing import Any

from benchmarks import machine, results
from benchmarks.contenders import Setting, contender_of
from benchmarks.event_model import Costs, steps_per_sec, workers_at_saturation
from benchmarks.plot import curves
from benchmarks.processes import Processes
from benchmarks.run import START_SECS, Measured, measure
from benchmarks.summary import short
from benchmarks.table import markdown
from benchmarks.workloads import workload_class

WORKLOAD = "sleeper"
NUM_PS = (1, 2)
TOLERANCE = 0.15
_PS_CORES = 8
"""What the advice at the end supposes that a ps has."""

_LINES_GBIT = (1, 10, 25)
"""Rates of a ps's line in each direction, for the same advice."""

_WANTED = 64
"""Workers for which the advice gives the number of ps."""

_PROFILED = "profile=60:30"


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
        "update_secs": _update_secs(options.pause_ms),
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


def _update_secs(pause_ms: float) -> float:
    """Returns the seconds of an update on a ps, from a profile of one worker: as long as it holds the update lock."""
    setting = Setting(WORKLOAD, 0, 1, 1, model_args=(f"pause_ms={pause_ms:g}",))
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory)) as processes:
        for program in contender_of(f"ours-async:{_PROFILED}").programs(setting):
            speaker = processes.start(program)
        head = speaker.wait_for(lambda line: line.text.startswith("ms per step"), START_SECS)
        row = speaker.wait_for(lambda line: line.text.startswith("worker:0 "), START_SECS)
    parts = dict(zip(head.text.split()[3:], row.text.split()[1:], strict=True))
    return float(parts["update"]) / 1000


def _median(values: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(value[name] for value in values) for name in values[0]}


def calibrated(points: Mapping[int, Mapping[str, float]], pause: float) -> Costs:
    """CPU times are those with the most workers, when nothing is idle; the latency is what else one worker waits."""
    fewest, most = points[min(points)], points[max(points)]
    worker_cpu, ps_cpu = most["worker_cpu"], most["ps_cpu"]
    alone = min(points) / fewest["steps_per_sec"]
    return Costs(pause, max(0.0, alone - pause - worker_cpu - ps_cpu), worker_cpu, ps_cpu)


@dataclasses.dataclass(frozen=True)
class Limits:
    """How many workers one ps serves, each task on a machine of its own, by what limits it.

    Attributes:
      workers: name of the limit to the number of workers.
    """

    workers: Mapping[str, int]

    def num_ps(self, workers: int) -> int:
        """Returns the fewest ps for so many workers: each has a share of the values, of the updates and a line."""
        return max(-(-workers // max(1, limit)) for limit in self.workers.values())


def limits(costs: Costs, cores: int, step_bytes: float, line_gbit: float, update_secs: float | None) -> Limits:
    """Returns the limits of one ps.

    Args:
      costs: of a step.
      cores: of the ps.
      step_bytes: bytes that a step pulls, and as many that it pushes.
      line_gbit: rate of the ps's line in each direction.
      update_secs: seconds for which an update holds the lock; None if it was not measured.
    """
    alone = costs.pause + costs.latency + costs.worker_cpu + costs.ps_cpu
    found = {f"its {cores} cores": workers_at_saturation(costs, 1, cores)}
    found[f"a line of {line_gbit:g} Gbit/s"] = int(line_gbit * 1e9 / 8 / step_bytes * alone)
    if update_secs:
        found[f"the update lock, held {1e3 * update_secs:.2g} ms"] = int(alone / update_secs)
    return Limits(found)


def report(record: Mapping[str, Any]) -> tuple[str, str]:
    """Markdown and SVG."""
    pause, cores = record["pause_ms"] / 1000, int(record["machine"]["cores"])
    rows: list[list[str]] = []
    series: dict[str, list[tuple[float, float]]] = {}
    advice = ""
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
            advice = _advice(costs, record.get("update_secs"))
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
    text = "\n".join([*lines, markdown(head, rows), "", advice, ""])
    return text, curves("steps/s of all workers", "workers", series)


def _advice(costs: Costs, update_secs: float | None) -> str:
    step_bytes = 4 * workload_class(WORKLOAD).parameters
    by_line = {gbit: limits(costs, _PS_CORES, step_bytes, gbit, update_secs) for gbit in _LINES_GBIT}
    found: dict[str, int] = {}
    for one in by_line.values():
        found |= one.workers
    fewest = ", ".join(f"{one.num_ps(_WANTED)} ps at {gbit:g} Gbit/s" for gbit, one in by_line.items())
    return (
        "By the model, with every task on a machine of its own, one ps keeps up with this many workers, by each limit: "
        f"{'; '.join(f'{name}: {workers}' for name, workers in found.items())}. A step pulls and pushes "
        f"{step_bytes / 1e6:.2f} MB. {_WANTED} workers want {fewest}."
    )
