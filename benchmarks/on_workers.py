"""`python -m benchmarks on_workers`: ps on the workers against ps of their own, under sync; bytes against the least.

The layouts are one ps, as many ps as workers, `--ps_on_workers`, and PyTorch's DistributedDataParallel where
`--torch_python` has it, interleaved: on the loopback interface, and with each task behind a line of 1 Gbit/s (root
only).  The bytes there are those that all tasks have sent.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

from benchmarks import machine, results
from benchmarks.contenders import Contender, Place, Setting, contender_of, reason_to_skip
from benchmarks.errors import SkippedError
from benchmarks.namespaces import Network
from benchmarks.run import measure
from benchmarks.slow import DELAY_MS, MBIT, SHAPE
from benchmarks.summary import spread_of
from benchmarks.table import markdown
from benchmarks.workloads import workload_class

LOOPBACK = "loopback"
_ON_WORKERS, _DDP = "ps on the workers", "DDP over gloo"


def run(options: argparse.Namespace) -> int:
    """Measures all layouts; stores and prints the tables."""
    record: dict[str, Any] = {
        "date": results.today(),
        "machine": machine.machine(options.torch_python),
        "load_before": machine.load_average(),
        "options": {name: getattr(options, name) for name in ("repeats", "secs", "num_workers")},
        "networks": {},
    }
    layouts = _layouts(options.num_workers)
    runs_of: dict[str, list[str]] = {}
    for name in options.workloads:
        reasons = {
            layout: reason_to_skip(contender, workload_class(name), record["machine"])
            for layout, (contender, _) in layouts.items()
        }
        runs_of[name] = [layout for layout, reason in reasons.items() if not reason]
        for layout in reasons.keys() - runs_of[name]:
            print(f"{layout} is skipped on {name}: {reasons[layout]}")
    workers = options.num_workers
    tasks = [*(f"ps:{index}" for index in range(workers)), *(f"worker:{index}" for index in range(workers))]
    record["networks"][LOOPBACK] = _measured(options, layouts, runs_of, {}, dict)
    with contextlib.suppress(SkippedError), Network(tasks, DELAY_MS, MBIT) as network:
        record["networks"][SHAPE] = _measured(options, layouts, runs_of, network.places, network.counts)
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
        _DDP: (contender_of("ddp"), 0),
    }


def _measured(
    options: argparse.Namespace,
    layouts: dict[str, tuple[Contender, int]],
    runs_of: dict[str, list[str]],
    places: dict[str, Place],
    counters: Callable[[], dict[str, float]],
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Returns workload to layout to its runs; `runs_of` has the layouts of each workload."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        name: {layout: [] for layout in names} for name, names in runs_of.items()
    }
    for _ in range(options.repeats):
        for name, runs in found.items():
            for layout in runs:
                contender, num_ps = layouts[layout]
                setting = Setting(name, 0, num_ps, options.num_workers, places, options.torch_python)
                measured = measure(contender, setting, options.secs, counters)
                runs[layout].append(dataclasses.asdict(measured))
    return found


def _report(record: dict[str, Any]) -> str:
    workers = record["options"]["num_workers"]
    parts = [f"# PS on the workers, {record['date']}", "", machine.text(record["machine"]), ""]
    parts += [
        f"{workers} workers, sync; load before: {record['load_before']}.  The least is 2 (N-1)/N of the model for"
    ]
    parts += ["each worker's batch; with ps of their own it is 2 of the model.", ""]
    head = ["workload", "layout", "examples/s", "x 1 ps", "x DDP", "CPU s/1000 ex.", "MB a batch", "x least"]
    for network, workloads in record["networks"].items():
        rows = []
        for name, layouts in workloads.items():
            rates = {
                one: spread_of([r["examples_per_sec"] for r in runs]).median for one, runs in layouts.items() if runs
            }
            for layout, rate in rates.items():
                share = (workers - 1) / workers if layout in (_ON_WORKERS, _DDP) else 1
                least = 8 * workload_class(name).parameters * share
                counted = [
                    sum(r["counted"][f"from_{side}"] for side in ("ps", "workers"))
                    for r in layouts[layout]
                    if r["counted"]
                ]
                sent = spread_of(counted).median if counted else 0.0
                cells = [f"{sent / 1e6:.2f}", f"{sent / least:.3f}"] if sent else ["-", "-"]
                ratios = [f"{rate / rates[one]:.2f}" if one in rates else "-" for one in ("1 ps", _DDP)]
                cpu = spread_of([sum(r["cpu_secs"].values()) for r in layouts[layout]]).median
                rows.append([name, layout, f"{rate:.0f}", *ratios, f"{cpu:.3f}", *cells])
        parts += [f"## {network}", "", markdown(head, rows), ""]
    return "\n".join(parts)
