"""`python -m benchmarks big_table`: a table of 1.3 GB over 2 ps: time and memory of its initialisation, saves, restore.

The same job with a small table is what the processes need without it.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import sys
import tempfile
import time
from typing import Any

from benchmarks import machine, results
from benchmarks.errors import ContenderError
from benchmarks.processes import Processes, Program, peak_bytes_of
from benchmarks.table import markdown
from benchmarks.workloads.big import ROWS
from benchmarks.workloads.lookup import DIMENSION
from tests.support.machine.proc import descendants, name_of

_SMALL = 20_000
_STEPS = 200
_WITHIN_SECS = 900.0
_TIMED = re.compile(r"(initialised|written|restored|trained \d+ steps|scored).* in ([0-9.]+)s")


def run(options: argparse.Namespace) -> int:
    record: dict[str, Any] = {"date": results.today(), "machine": machine.machine(), "num_ps": options.num_ps}
    record["runs"] = {rows: _two_runs(rows, options) for rows in (_SMALL, ROWS)}
    text = _report(record)
    results.store("big-table", record, text, "", options.results)
    print(text)
    return 0


def _two_runs(rows: int, options: argparse.Namespace) -> dict[str, Any]:
    """From nothing, and from the checkpoint of the first."""
    with tempfile.TemporaryDirectory() as directory:
        return {
            "first": _one_run(rows, _STEPS, pathlib.Path(directory), options),
            "resumed": _one_run(rows, 2 * _STEPS, pathlib.Path(directory), options),
        }


def _one_run(rows: int, max_steps: int, directory: pathlib.Path, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "ps_train", "--model=benchmarks.workloads.big:Big", f"--model_arg=rows={rows}"]
    command += [
        f"--num_ps={options.num_ps}",
        f"--num_workers={options.num_workers}",
        "--verbose",
        f"--model_dir={directory}/model",
    ]
    command += [f"--max_steps={max_steps}", "--batch_size=1024", "--save_secs=3600", "--startup_timeout_secs=600"]
    secs: dict[str, float] = {}
    peaks: dict[str, int] = {}
    with Processes(directory) as processes:
        running = processes.start(Program(f"{rows} rows", command))
        deadline = time.monotonic() + _WITHIN_SECS
        while True:
            _note_peaks(running.pid, peaks)
            texts = [line.text for line in running.take()]
            for timed in filter(None, map(_TIMED.search, texts)):
                secs[timed[1]] = float(timed[2])
            if any(text.startswith("checkpoint /") for text in texts):
                break
            if time.monotonic() > deadline or not running.alive:
                raise ContenderError(running.story())
            time.sleep(0.05)
    return {"secs": secs, "peak_bytes": peaks}


def _note_peaks(launcher: int, peaks: dict[str, int]) -> None:
    """The kernel keeps each process's peak; it is read as long as the process lives."""
    for pid in descendants(launcher):
        name = name_of(pid)
        if ":" in name:
            peaks[name] = max(peaks.get(name, 0), peak_bytes_of(pid))


def _report(record: dict[str, Any]) -> str:
    small, big = record["runs"][_SMALL], record["runs"][ROWS]
    lines = [f"# A table of {ROWS:,} rows of {DIMENSION}, {record['date']}", "", machine.text(record["machine"]), ""]
    share = 2 * 4 * ROWS * DIMENSION / record["num_ps"]
    lines += [f"{record['num_ps']} ps; a ps's share of rows and Adagrad's accumulators is {share / 1e6:.0f} MB.", ""]
    for run in ("first", "resumed"):
        rows = [[what, f"{secs:.1f}"] for what, secs in big[run]["secs"].items()]
        lines += [f"Seconds, {run} run:", "", markdown(["what", "seconds"], rows), ""]
    rows = []
    for run in ("first", "resumed"):
        for name, peak in sorted(big[run]["peak_bytes"].items()):
            without = small[run]["peak_bytes"].get(name, 0)
            of_share = f"{(peak - without) / share:.2f}" if name.startswith("ps:") else "-"
            rows.append([f"{name}, {run} run", f"{peak / 1e6:.0f}", f"{without / 1e6:.0f}", of_share])
    head = ["process", "peak MB", f"with {_SMALL:,} rows", "difference / share"]
    return "\n".join([*lines, markdown(head, rows), ""])
