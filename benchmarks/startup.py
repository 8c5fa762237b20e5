"""`python -m benchmarks startup`: from launch to the first step of all workers, against a bare TensorFlow session."""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import time
from typing import Any

from benchmarks import machine, results
from benchmarks.contenders import Setting, contenders_of
from benchmarks.processes import Processes, Program
from benchmarks.run import START_SECS, time_to_first_steps
from benchmarks.summary import ratio_of_medians, spread_of
from benchmarks.table import markdown

DEFAULT_WORKLOAD = "starting"
ALONE = "bare TensorFlow import and session"


def run(options: argparse.Namespace) -> int:
    workload = options.workloads[0]
    processes = options.num_ps + options.num_workers
    together = f"{processes} of these at once"
    secs: dict[str, list[float]] = {ALONE: [], together: []}
    for _ in range(options.repeats):
        secs[ALONE].append(blank_secs(1))
        secs[together].append(blank_secs(processes))
        for contender in contenders_of(["ours-async", "classic-async"]):
            setting = Setting(workload, 0, options.num_ps, options.num_workers, verbose=True)
            secs.setdefault(contender.name, []).append(time_to_first_steps(contender, setting))
    record = {"date": results.today(), "machine": machine.machine(), "workload": workload, "secs": secs}
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


def _report(record: dict[str, Any]) -> str:
    rows = []
    for name, values in record["secs"].items():
        ratio = ratio_of_medians(values, record["secs"][ALONE])
        rows.append([name, spread_of(values).text(), "-" if ratio is None else f"{ratio:.2f}"])
    lines = [f"# Start-up, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += [f"Seconds from launch to the first step of all workers on {record['workload']}.", ""]
    return "\n".join([*lines, markdown(["what", "seconds", "x bare"], rows), ""])
