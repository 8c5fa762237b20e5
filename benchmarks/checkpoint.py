"""`python -m benchmarks checkpoint`: what checkpoints of a large table cost a job, against TensorFlow's Saver.

    python -m benchmarks checkpoint --gigabytes=0.5,2 --repeats=3

A job with 1 ps, and then with 2, trains and saves again and again.  Its steps/s while a checkpoint is written are
divided by those before it.  `tf.compat.v1.train.Saver` writes variables of the same size in one process.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import machine, results
from benchmarks.errors import ContenderError, UsageError
from benchmarks.processes import Line, Processes, Program
from benchmarks.run import step_of
from benchmarks.table import markdown

ROW_BYTES = 2 * 4 * 16
"""A row of 16 and its accumulators."""

NUM_PS = (1, 2)
_START_SECS = 600.0
_HELD = re.compile(r"saving paused updates for ([0-9.]+) ms")
_WRITTEN = re.compile(r"checkpoint \d+ is written in ([0-9.]+)s")


def run(options: argparse.Namespace) -> int:
    sizes = _sizes_of(options.gigabytes)
    record: dict[str, Any] = {"date": results.today(), "machine": machine.machine(), "rows": []}
    record["load"] = [machine.load_average()]
    for size in sizes:
        rows = int(size * 1e9 / ROW_BYTES)
        secs = [saver_secs(rows) for _ in range(options.repeats)]
        record["rows"].append({"gigabytes": size, "by": "Saver, one process", "write_secs": secs})
        for num_ps in NUM_PS:
            row = {"gigabytes": size, "by": f"{num_ps} ps", "num_workers": options.num_workers}
            record["rows"].append({**row, **job(rows, num_ps, options)})
            print(record["rows"][-1], flush=True)
    record["load"].append(machine.load_average())
    text = report(record)
    results.store("checkpoint", record, text, "", options.results)
    print(text)
    return 0


def _sizes_of(text: str) -> list[float]:
    try:
        found = [float(size) for size in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < size <= 1000 for size in found):
        raise UsageError(f"--gigabytes={text} is not valid: use numbers above 0, such as 0.5,2.")
    return found


def saver_secs(rows: int) -> float:
    """Returns the seconds of one save by TensorFlow's Saver."""
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory)) as processes:
        command = [sys.executable, "-m", "benchmarks.peers.saver", str(rows), f"{directory}/model"]
        saved = processes.start(Program("saver", command)).wait_for(lambda line: line.text.startswith("saved in "), 300)
        return float(saved.text.split()[2])


def job(rows: int, num_ps: int, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the figures of `options.repeats` checkpoints of one job, after one that is not counted.

    Returns:
      write_secs: seconds of each write.
      hold_ms: milliseconds for which it held the pushes.
      during, without: steps per second while it was written, and before it.
      ps_bytes: peak resident memory of all ps.
    """
    command = [sys.executable, "-m", "ps_train", "--model=benchmarks.workloads.big:Big", f"--model_arg=rows={rows}"]
    command += [f"--num_ps={num_ps}", f"--num_workers={options.num_workers}", "--model_dir=model", "--verbose"]
    command += ["--batch_size=1024", f"--save_secs={options.save_secs:g}", "--keep_checkpoints=1", "--log_secs=0.2"]
    command += ["--max_steps=1000000000", "--startup_timeout_secs=600", *options.flag]
    found: dict[str, Any] = {"write_secs": [], "hold_ms": [], "during": [], "without": []}
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory), endless=True) as processes:
        running = processes.start(Program(f"{rows} rows", command))
        running.wait_for(lambda line: step_of(line) > 0, _START_SECS)
        before = _until_written(running, options)  # the first one: the machine may still be busy with the start
        for _ in range(options.repeats):
            lines = _until_written(running, options)
            begin = next(number for number, line in enumerate(lines) if _HELD.search(line.text))
            held, written = _HELD.search(lines[begin].text), _WRITTEN.search(lines[-1].text)
            assert held is not None and written is not None
            found["hold_ms"].append(float(held[1]))
            found["write_secs"].append(float(written[1]))
            found["without"] += _rate([*before[-1:], *lines[:begin]])
            found["during"] += _rate(lines[begin:])
            before = lines
        found["ps_bytes"] = processes.ps_peak_bytes()
    return found


def _until_written(running: Any, options: argparse.Namespace) -> list[Line]:
    """Returns the lines until the next checkpoint is written."""
    lines: list[Line] = []
    deadline = time.monotonic() + options.save_secs + _START_SECS
    while not (lines and _WRITTEN.search(lines[-1].text)):
        if time.monotonic() > deadline:
            raise ContenderError("no checkpoint was written in time")
        lines.append(running.wait_for(lambda line: True, 60.0))
    return lines


def _rate(lines: Sequence[Line]) -> list[float]:
    """Returns the steps per second between the first and the last line with a step; nothing for a single line."""
    steps = [line for line in lines if step_of(line) >= 0]
    if len(steps) < 2:
        return []
    return [(step_of(steps[-1]) - step_of(steps[0])) / (steps[-1].time - steps[0].time)]


def report(record: dict[str, Any]) -> str:
    """Returns the table of all sizes as text."""
    cells = []
    for row in record["rows"]:
        size = row["gigabytes"]
        secs = statistics.median(row["write_secs"])
        cell = [f"{size:g} GB, {row['by']}", f"{secs:.2f}", f"{1000 * size / secs:.0f}"]
        if row.get("during") and row["without"]:
            during, without = (statistics.median(row[name]) for name in ("during", "without"))
            ratio = f"{during / without:.2f}"
            hold = f"{statistics.median(row['hold_ms']):.0f} (at most {max(row['hold_ms']):.0f})"
            cell += [hold, f"{without:.1f}", f"{during:.1f}", ratio, f"{row['ps_bytes'] / 1e9:.2f}"]
        cells.append(cell + [""] * (8 - len(cell)))
    head = ["what", "seconds", "MB/s", "held ms", "steps/s", "steps/s during a write", "ratio", "peak of all ps, GB"]
    lines = [f"# Checkpoints of a large table, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += [f"Load average before and after: {record['load'][0]}, {record['load'][-1]}.", ""]
    lines += ["A table with its accumulators, of which a batch of 1024 x 26 ids touches few rows; medians.", ""]
    return "\n".join([*lines, markdown(head, cells), ""])
