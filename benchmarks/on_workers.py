"""`python -m benchmarks on_workers`: ps on the workers against ps of their own, under sync; bytes against the least.

The layouts are one ps, as many ps as workers, and `--ps_on_workers`, interleaved: on the loopback interface, and with
each task behind a line of 1 Gbit/s (root only).  The bytes there are those that all tasks have sent.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

from benchmarks import machine, results
from benchmarks.contenders import Contender, Place, Setting, contender_of
from benchmarks.errors import ContenderError, SkippedError
from benchmarks.namespaces import Network
from benchmarks.run import measure
from benchmarks.slow import DELAY_MS, MBIT, SHAPE
from benchmarks.summary import spread_of
from benchmarks.table import markdown
from benchmarks.workloads import workload_class

LOOPBACK = "loopback"
_ON_WORKERS = "ps on the workers"


def run(options: argparse.Namespace) -> int:
    """Measures all layouts; stores and prints the tables."""
    record: dict[str, Any] = {
        "date": results.today(),
        "machine": machine.machine(""),
        "load_before": machine.load_average(),
        "options": {name: getattr(options, name) for name in ("repeats", "secs", "num_workers")},
        "networks": {LOOPBACK: _measured(options, {}, dict)},
    }
    workers = options.num_workers
    tasks = [*(f"ps:{index}" for index in range(workers)), *(f"worker:{index}" for index in range(workers))]
    with contextlib.suppress(SkippedError), Network(tasks, DELAY_MS, MBIT) as network:
        record["networks"][SHAPE] = _measured(options, network.places, network.counts)
    text = _report(record)
    results.store("on_workers", record, text, "", options.results)
    print(text)
    return 0


def _layouts(num_workers: int) -> dict[str, tuple[Contender, int]]:
    """Returns name to contender and number of ps."""
    ours = contender_of("ours-sync")
    return {
        "1 ps": (ours, 1),
        f"{num_workers} ps": (ours, num_workers),
        _ON_WORKERS: (contender_of("on-workers-sync"), 1),
    }


def _measured(
    options: argparse.Namespace, places: dict[str, Place], counters: Callable[[], dict[str, float]]
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Returns workload to layout to its runs."""
    layouts = _layouts(options.num_workers)
    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        name: {one: [] for one in layouts} for name in options.workloads
    }
    for _ in range(options.repeats):
        for name, runs in found.items():
            for layout, (contender, num_ps) in layouts.items():
                setting = Setting(name, 0, num_ps, options.num_workers, places)
                try:
                    runs[layout].append(dataclasses.asdict(measure(contender, setting, options.secs, counters)))
                except ContenderError as error:
                    print(f"{name}, {layout}: {error}")
    return found


def _report(record: dict[str, Any]) -> str:
    workers = record["options"]["num_workers"]
    parts = [f"# PS on the workers, {record['date']}", "", machine.text(record["machine"]), ""]
    parts += [
        f"{workers} workers, sync; load before: {record['load_before']}.  The least is 2 (N-1)/N of the model for"
    ]
    parts += ["each worker's batch; with ps of their own it is 2 of the model.", ""]
    head = ["workload", "layout", "examples/s", "x 1 ps", "MB a batch", "x least"]
    for network, workloads in record["networks"].items():
        rows = []
        for name, layouts in workloads.items():
            rates = {
                one: spread_of([r["examples_per_sec"] for r in runs]).median for one, runs in layouts.items() if runs
            }
            for layout, rate in rates.items():
                least = 8 * workload_class(name).parameters * ((workers - 1) / workers if layout == _ON_WORKERS else 1)
                counted = [
                    sum(r["counted"][f"from_{side}"] for side in ("ps", "workers"))
                    for r in layouts[layout]
                    if r["counted"]
                ]
                sent = spread_of(counted).median if counted else 0.0
                cells = [f"{sent / 1e6:.2f}", f"{sent / least:.3f}"] if sent else ["-", "-"]
                ratio = f"{rate / rates['1 ps']:.2f}" if "1 ps" in rates else "-"
                rows.append([name, layout, f"{rate:.0f}", ratio, *cells])
        parts += [f"## {network}", "", markdown(head, rows), ""]
    return "\n".join(parts)
