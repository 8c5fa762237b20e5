"""`python -m benchmarks startup`: from launch to the first step of all workers, against a bare TensorFlow session.

It also divides the start of two jobs of ours into phases, by what they log.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import time
from typing import Any

from benchmarks import graph_size, machine, results
from benchmarks.contenders import Setting, contenders_of
from benchmarks.processes import Processes, Program
from benchmarks.run import START_SECS, time_to_first_steps
from benchmarks.summary import ratio_of_medians, spread_of
from benchmarks.table import markdown

DEFAULT_WORKLOAD = "starting"
ALONE = "bare TensorFlow import and session"
PHASES = {
    "TensorFlow imported once, tasks forked": "environment: ",
    "model traced, checked and planned": "status  ",
    "graph built, session opened, variables initialized": "initialized in ",
    "first call": "first step at ",
}
"""Phases of a start, to a part of the line with which each of them ends."""


def run(options: argparse.Namespace) -> int:
    workload = options.workloads[0]
    processes = options.num_ps + options.num_workers
    together = f"{processes} of these at once"
    secs: dict[str, list[float]] = {ALONE: [], together: []}
    phases: dict[str, list[dict[str, float]]] = {}
    for _ in range(options.repeats):
        for name, program in _jobs().items():
            phases.setdefault(name, []).append(phases_of(program))
        secs[ALONE].append(blank_secs(1))
        secs[together].append(blank_secs(processes))
        for contender in contenders_of(["ours-async", "classic-async"]):
            setting = Setting(workload, 0, options.num_ps, options.num_workers, verbose=True)
            secs.setdefault(contender.name, []).append(time_to_first_steps(contender, setting))
    record = {"date": results.today(), "machine": machine.machine(), "workload": workload, "secs": secs}
    record["phases"] = phases
    text = _report(record)
    results.store("startup", record, text, "", options.results)
    print(text)
    return 0


def blank_secs(count: int) -> float:
    """Until so many processes that are started together have all run a session."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory)) as processes:
        command = [sys.executable, "-m", "benchmarks.peers.blank"]
        running = [processes.start(Program(f"blank {number}", command)) for number in range(count)]
        return max(one.wait_for(lambda line: line.text == "first step", START_SECS).time for one in running) - began


def _jobs() -> dict[str, Program]:
    """Returns two jobs of one ps and one worker by name: the default model, and 26 tables."""
    digits = [sys.executable, "-m", "ps_train", "--model=ps_train.models.digits:Digits", "--num_ps=1"]
    digits += ["--num_workers=1", "--model_dir=model", "--verbose"]
    (tables,) = graph_size.programs(graph_size.Case("tables", 26), "ours", max_steps=1 << 30)
    return {"digits": Program("digits", digits), "26 tables": tables}


def phases_of(program: Program) -> dict[str, float]:
    """Returns the seconds of each phase until the first step of a job, which is then ended."""
    before, found = time.monotonic(), {}
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory)) as processes:
        running = processes.start(program)
        for name, end in PHASES.items():
            line = running.wait_for(lambda line, end=end: end in line.text, START_SECS)  # type: ignore[misc]
            found[name], before = line.time - before, line.time
    return found


def _report(record: dict[str, Any]) -> str:
    rows = []
    for name, values in record["secs"].items():
        ratio = ratio_of_medians(values, record["secs"][ALONE])
        rows.append([name, spread_of(values).text(), "-" if ratio is None else f"{ratio:.2f}"])
    lines = [f"# Start-up, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += [f"Seconds from launch to the first step of all workers on {record['workload']}.", ""]
    lines += [
        markdown(["what", "seconds", "x bare"], rows),
        "",
        "Seconds of the phases of jobs with one ps and one worker.",
        "",
    ]
    phases = [
        [name, *(spread_of([run[name] for run in runs]).text() for runs in record["phases"].values())]
        for name in PHASES
    ]
    return "\n".join([*lines, markdown(["phase", *record["phases"]], phases), ""])
