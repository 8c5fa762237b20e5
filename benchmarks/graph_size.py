"""`python -m benchmarks graph_size`: the cost of preparing models of many variables, tables, columns or products.

    python -m benchmarks graph_size --cases=variables:100+400,tables --engines=ours,classic --repeats=3

One ps and one worker.  A run is observed for `--observe_secs` from its first step on, and then ended.  Another run of
ours makes `JOB_STEPS` steps and ends by itself, with the last checkpoint and the score of the test data.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import machine, results
from benchmarks.errors import ContenderError, UsageError
from benchmarks.processes import Processes, Program, Running, peak_bytes_of
from benchmarks.run import step_of
from benchmarks.summary import ratio_of_medians, short
from benchmarks.table import markdown
from tests.support.machine.ports import free_ports

SIZES: Mapping[str, Sequence[int]] = {
    "variables": (10, 100, 400, 1000),
    "tables": (1, 26, 100),
    "columns": (3, 26, 39),
    "products": (50, 400, 741),
}
"""The models of `graph_models.py`, and the sizes that are measured by default."""

ENGINES = ("ours", "ours-1", "classic", "single")
"""ours-1 is ours with --steps_per_run=1; single is one process without a cluster."""

JOB_STEPS = 24
_ENDLESS = 1 << 30
_START_SECS = 600.0
_PROGRAMS = ("columns", "products")
"""Models that ours trains as Estimator programs."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and its size: `tables:26`."""

    model: str
    size: int

    def __str__(self) -> str:
        return f"{self.model}:{self.size}"


def cases_of(text: str) -> list[Case]:
    """Returns the cases of a text such as `variables:100+400,tables`; without sizes these are the model's own.

    Raises:
      UsageError: a model is unknown, or a size is not a number above 0.
    """
    found = []
    for part in text.split(","):
        model, colon, sizes = part.partition(":")
        numbers = sizes.split("+") if colon else [str(size) for size in SIZES.get(model, ())]
        if model not in SIZES or not all(number.isdecimal() and int(number) > 0 for number in numbers):
            raise UsageError(
                f"--cases={text} is not valid: use model:size or model:size+size with one of {', '.join(SIZES)}."
            )
        found += [Case(model, int(number)) for number in numbers]
    return found


def run(options: argparse.Namespace) -> int:
    cases, engines = cases_of(options.cases), _engines_of(options.engines)
    runs: dict[str, dict[str, list[dict[str, float]]]] = {}
    load_before = machine.load_average()
    for number in range(options.repeats):
        for case in cases:
            for engine in (*engines[number % len(engines) :], *engines[: number % len(engines)]):
                measured = observe(case, engine, options.observe_secs)
                if engine in options.job_of.split(","):
                    measured |= whole_job(case, engine)
                runs.setdefault(str(case), {}).setdefault(engine, []).append(measured)
                shown = ", ".join(f"{name} {short(value)}" for name, value in measured.items())
                print(f"{case} {engine}: {shown}", flush=True)
    record = {
        "date": results.today(),
        "machine": machine.machine(),
        "load": [load_before, machine.load_average()],
        "observe_secs": options.observe_secs,
        "runs": runs,
    }
    text = report(record)
    results.store("graph-size", record, text, "", options.results)
    print(text)
    return 0


def _engines_of(text: str) -> list[str]:
    found = text.split(",")
    if unknown := set(found) - set(ENGINES):
        raise UsageError(f"--engines={text} is not valid: use some of {', '.join(ENGINES)}; not {unknown.pop()!r}.")
    return found


def observe(case: Case, engine: str, secs: float) -> dict[str, float]:
    """Returns what one run costs until its first step and `secs` seconds after it.

    Returns:
      first_step: seconds from launch to the first step.
      first_step_cpu: CPU seconds of all processes until then.
      chief_mib, ps_mib: peak resident memory of the worker's process and of the ps.
      early_steps_per_sec: of the first half of the time after the first step.
      steps_per_sec: of the second half.
    """
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory), endless=True) as processes:
        began = time.monotonic()
        for program in programs(case, engine, _ENDLESS):
            speaker = processes.start(program)
        first = speaker.wait_for(lambda line: "first step" in line.text, _START_SECS).time
        cpu = sum(processes.cpu_secs().values())
        early, late = _rates(speaker, first, secs)
        processes.check()
        pids = processes.pids()
        chief, ps = (max(map(peak_bytes_of, pids[group]), default=0) / 2**20 for group in ("workers", "ps"))
    return {
        "first_step": first - began,
        "first_step_cpu": cpu,
        "chief_mib": chief,
        "ps_mib": ps,
        "early_steps_per_sec": early,
        "steps_per_sec": late,
    }


def _rates(speaker: Running, first: float, secs: float) -> tuple[float, float]:
    """Returns the steps per second of both halves of `secs` seconds that began with the first step."""
    seen = [(first, 1)]
    while time.monotonic() < first + secs and speaker.alive:
        seen += [(line.time, step_of(line)) for line in speaker.take() if step_of(line) >= 0]
        time.sleep(0.1)
    if not speaker.alive:
        raise ContenderError(speaker.story())
    begin, middle, end = seen[0], max(one for one in seen if one[0] <= first + secs / 2), seen[-1]
    return _rate(begin, middle), _rate(middle, end)


def _rate(begin: tuple[float, int], end: tuple[float, int]) -> float:
    """Returns the steps per second between two points (seconds, step)."""
    return (end[1] - begin[1]) / (end[0] - begin[0]) if end[0] > begin[0] else 0.0


def whole_job(case: Case, engine: str) -> dict[str, float]:
    """Returns wall and CPU seconds of a job of `JOB_STEPS` steps, from launch to the end of its last process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory)) as processes:
        started = [processes.start(program) for program in programs(case, engine, JOB_STEPS)]
        deadline = began + _START_SECS
        while any(process.alive for process in started) and time.monotonic() < deadline:
            processes.check()
            time.sleep(0.05)
        processes.check()
        if any(process.alive for process in started):
            raise ContenderError(f"{case} {engine} has not ended within {_START_SECS:g}s")
        wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"job": wall, "job_cpu": cpu}


def programs(case: Case, engine: str, max_steps: int) -> list[Program]:
    """Returns the processes of one run; the last one says how far training is."""
    of_run = ["--steps_per_run=1"] if engine == "ours-1" else []
    if engine.startswith("ours") and case.model not in _PROGRAMS:
        command = [sys.executable, "-m", "ps_train", f"--model=benchmarks.graph_models:{case.model.capitalize()}"]
        command += [f"--model_arg=size={case.size}", "--batch_size=64", f"--max_steps={max_steps}", "--log_secs=1"]
        command += ["--save_secs=3600", "--model_dir=model", "--num_ps=1", "--num_workers=1", "--verbose", *of_run]
        return [Program("ours", command)]
    command = [sys.executable, "-m", "benchmarks.peers.graph", f"--model={case.model}", f"--size={case.size}"]
    command += [f"--engine={engine.removesuffix('-1')}", f"--max_steps={max_steps}", *of_run]
    if engine == "single":
        return [Program("worker:0", command)]
    ps, worker = free_ports(2)
    command += [f"--ps_hosts=127.0.0.1:{ps}", f"--worker_hosts=127.0.0.1:{worker}"]
    return [Program(f"{job}:0", [*command, f"--job_name={job}"]) for job in ("ps", "worker")]


_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "first_step": ("first step, s", short),
    "first_step_cpu": ("until then, CPU s", short),
    "chief_mib": ("chief, MiB", lambda value: f"{value:.0f}"),
    "ps_mib": ("ps, MiB", lambda value: f"{value:.0f}"),
    "early_steps_per_sec": ("steps/s at first", short),
    "steps_per_sec": ("steps/s", short),
    "job": (f"{JOB_STEPS} steps, s", short),
    "job_cpu": (f"{JOB_STEPS} steps, CPU s", short),
}


def report(record: Mapping[str, Any]) -> str:
    """Returns the record as markdown: medians, and ratios of medians to the classic recipe's."""
    lines = [f"# Size of graphs, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += [
        f"One ps and one worker; load average {record['load'][0]} before and {record['load'][1]} after.  Medians; in "
        "brackets the ratio to the classic recipe's.  Steps/s are of the first and of the second half of the "
        f"{record['observe_secs']:g} s after the first step.", "",
    ]  # fmt: skip
    rows = []
    for case, engines in record["runs"].items():
        for engine, runs in engines.items():
            rows.append([case, engine, str(len(runs)), *(_cell(name, runs, engines) for name in _COLUMNS)])
    return "\n".join([*lines, markdown(["case", "engine", "runs", *(head for head, _ in _COLUMNS.values())], rows), ""])


def _cell(name: str, runs: Sequence[Mapping[str, float]], engines: Mapping[str, Any]) -> str:
    values = [run[name] for run in runs if name in run]
    if not values:
        return "-"
    classic = [run[name] for run in engines.get("classic", ()) if name in run]
    ratio = ratio_of_medians(values, classic) if runs is not engines.get("classic") and all(classic) else None
    text = _COLUMNS[name][1](statistics.median(values))
    return text if ratio is None else f"{text} ({ratio:.2f})"
