"""`python -m benchmarks delta`: seconds, memory and bytes of a delta of a large table, and of applying it.

    python -m benchmarks delta --repeats=3

One of a hundred rows of a table of 20 million rows of 16 changes.  The commands run as processes of their own; the
memory is the peak of the process, and that above one which has only imported TensorFlow.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import machine, results
from benchmarks.errors import ContenderError
from benchmarks.table import markdown

ROWS, WIDTH, CHANGED = 20_000_000, 16, 0.01
_PART, _POLL_SECS = 500_000, 0.02
_VERB = ["-m", "ps_train"]


def run(options: argparse.Namespace) -> int:
    record: dict[str, Any] = {"date": results.today(), "machine": machine.machine(), "runs": []}
    record["load"] = [machine.load_average()]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        record["full_bytes"] = _write_checkpoints(folder)
        for number in range(options.repeats):
            delta, result = str(folder / f"delta{number}"), str(folder / f"result{number}")
            found = {"import": _measured(["-c", "import tensorflow"])}
            found["delta"] = _measured([*_VERB, "delta", str(folder / "old"), str(folder / "new"), f"--to={delta}"])
            found["apply"] = _measured([*_VERB, "apply", str(folder / "old"), delta, f"--to={result}"])
            record["delta_bytes"] = _bytes_in(delta)
            record["runs"].append(found)
            shutil.rmtree(result)
    record["load"].append(machine.load_average())
    text = report(record)
    results.store("delta", record, text, "", options.results)
    print(text)
    return 0


def _measured(arguments: Sequence[str]) -> dict[str, float]:
    """Returns the seconds, the CPU seconds and the peak of resident bytes of a Python process."""
    began, peak = time.monotonic(), 0
    command = [sys.executable, *arguments]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            peak = max(peak, _peak_bytes(process.pid))
            time.sleep(_POLL_SECS)
        process.returncode = os.waitstatus_to_exitcode(ended[1])
        if process.returncode:
            said.seek(0)
            raise ContenderError(f"{' '.join(arguments)} ended with {process.returncode}: {said.read().strip()[-300:]}")
    cpu = ended[2].ru_utime + ended[2].ru_stime
    return {"secs": time.monotonic() - began, "cpu_secs": cpu, "peak_bytes": peak}


def _peak_bytes(pid: int) -> int:
    """Returns the peak of a process since it runs its program; `ru_maxrss` has that of its parent too."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def _write_checkpoints(folder: pathlib.Path) -> int:
    """Writes the two checkpoints; returns the bytes of one."""
    from ps_train.engine.variables.variables import rows_spec
    from ps_train.saved.values import Writer

    random = np.random.default_rng(1)
    changed = random.random(ROWS) < CHANGED
    for name in ("old", "new"):
        (folder / name).mkdir()
        rows, writer = np.random.default_rng(2), Writer(str(folder / name / "model.ckpt-1"))
        for begin in range(0, ROWS, _PART):
            part = rows.standard_normal((_PART, WIDTH), dtype=np.float32)
            if name == "new":
                part[changed[begin : begin + _PART]] += 1
            writer.add("table", part, rows_spec([ROWS, WIDTH], begin, _PART))
        writer.add("global_step", np.int64(1))
        writer.close()
    return _bytes_in(str(folder / "new"))


def _bytes_in(folder: str) -> int:
    return sum(path.stat().st_size for path in pathlib.Path(folder).rglob("*") if path.is_file())


def report(record: dict[str, Any]) -> str:
    """Returns the table as text."""
    cells = []
    bare = statistics.median(one["import"]["peak_bytes"] for one in record["runs"])
    for what in ("import", "delta", "apply"):
        secs, cpu, peak = (
            statistics.median(one[what][name] for one in record["runs"]) for name in ("secs", "cpu_secs", "peak_bytes")
        )
        name = "import of TensorFlow alone" if what == "import" else what
        cells.append([name, f"{secs:.1f}", f"{cpu:.1f}", f"{peak / 2**20:.0f}", f"{(peak - bare) / 2**20:.0f}"])
    lines = [f"# A delta of a large table, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += [f"Load average before and after: {record['load'][0]}, {record['load'][-1]}.", ""]
    lines += [
        f"{ROWS / 1e6:.0f} million rows of {WIDTH}, of which {CHANGED:.0%} change; medians of {len(record['runs'])}. "
        f"The delta has {record['delta_bytes'] / 1e6:.1f} MB, the checkpoint {record['full_bytes'] / 1e6:.0f} MB.",
        "",
    ]
    head = ["what", "seconds", "CPU seconds", "peak MiB", "above the import, MiB"]
    return "\n".join([*lines, markdown(head, cells), ""])
