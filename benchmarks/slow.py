"""`python -m benchmarks slow`: ps and workers in network namespaces with delay and a rate limit between them.

Each task's packets are delayed by --delay_ms (1 ms, so 2 ms there and back) and paced at --mbit (1 Gbit/s).  Root only;
skipped otherwise.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from benchmarks import machine, report, results
from benchmarks.contenders import Setting, contender_of, contenders_of, reason_to_skip, torch_python_for
from benchmarks.namespaces import Network, check_possible
from benchmarks.run import measure
from benchmarks.summary import spread_of
from benchmarks.table import markdown
from benchmarks.wire_bound import Used, Wire, batches_per_sec
from benchmarks.workloads import workload_class

DELAY_MS, MBIT = 1.0, 1000.0


def shape(delay_ms: float, mbit: float) -> str:
    return f"delay {delay_ms:g} ms, {mbit:g} Mbit/s"


SHAPE = shape(DELAY_MS, MBIT)


def run(options: argparse.Namespace) -> int:
    check_possible()
    network_shape = shape(options.delay_ms, options.mbit)
    contenders = [one for one in contenders_of(options.contenders) if one.update != "none"]
    record: dict[str, Any] = {
        "date": results.today(),
        "machine": machine.machine(torch_python_for(contenders, options.torch_python)),
        "load_before": machine.load_average(),
        "options": {
            name: getattr(options, name) for name in ("repeats", "secs", "num_ps", "num_workers", "delay_ms", "mbit")
        },
        "network": network_shape,
        "workloads": {},
    }
    for name in options.workloads:
        workload = workload_class(name)
        reasons = {one.name: reason_to_skip(one, workload, record["machine"]) for one in contenders}
        record["workloads"][name] = {
            "about": f"{workload.about}; {network_shape}",
            "updates": {one.name: one.update for one in contenders},
            "runs": {name: [] for name, reason in reasons.items() if not reason},
            "losses": {},
            "failures": {},
            "skipped": {name: reason for name, reason in reasons.items() if reason},
            "check_steps": 0,
            "tolerance": 0.0,
            "compute_secs": _compute_secs(name, options.secs),
        }
    tasks = [f"ps:{index}" for index in range(options.num_ps)]
    tasks += [f"worker:{index}" for index in range(options.num_workers)] + ["chief:0"]
    with Network(tasks, options.delay_ms, options.mbit) as network:
        for _ in range(options.repeats):
            for name, found in record["workloads"].items():
                for contender in (one for one in contenders if one.name in found["runs"]):
                    setting = Setting(name, 0, options.num_ps, options.num_workers, network.places)
                    setting = dataclasses.replace(setting, torch_python=options.torch_python)
                    measured = measure(contender, setting, options.secs, network.counts)
                    found["runs"][contender.name].append(dataclasses.asdict(measured))
    text = report.markdown_of(record, judged=False) + _bounds(record)
    results.store("slow", record, text, report.plot_of(record), options.results)
    print(text)
    return 0


def _compute_secs(workload: str, secs: float) -> float:
    """Returns what a batch takes on one core, without a ps."""
    found = measure(contender_of("single-2x1"), Setting(workload), secs)
    return found.cpu_secs["workers"] * workload_class(workload).batch_size / 1000


def _bounds(record: dict[str, Any]) -> str:
    """The bytes of a batch, and the rate against the bound of wire, round trips, computing and cores."""
    head = ["contender", "KB pulled", "KB pushed", "bytes, x the first", "bound, examples/s", "reached"]
    parts = []
    for name, workload in record["workloads"].items():
        rows, first = [], 0.0
        for contender, runs in workload["runs"].items():
            if runs:
                pulled, pushed, bound, rate = _bound(name, contender, runs, record)
                first = first or pulled + pushed
                cells = [f"{pulled / 1e3:.0f}", f"{pushed / 1e3:.0f}", f"{(pulled + pushed) / first:.3f}"]
                rows.append([contender, *cells, f"{bound:.0f}", f"{rate / bound:.2f}"])
        parts += ["", f"## Bound on {name}", "", markdown(head, rows), ""]
    about = "The bound is the least of what the ps's line, the turn of a worker and the cores allow (`wire_bound.py`)."
    return "\n".join([*parts, about, ""])


def _bound(
    workload: str, contender: str, runs: list[dict[str, Any]], record: dict[str, Any]
) -> tuple[float, float, float, float]:
    """Returns bytes pulled and pushed for a batch, the bound and the rate in examples a second."""
    batch, options = workload_class(workload).batch_size, record["options"]
    counted = {name: spread_of([run["counted"][name] for run in runs]).median for name in runs[0]["counted"]}
    tasks_cpu = spread_of([sum(run["cpu_secs"].values()) for run in runs]).median * batch / 1000
    used = Used(
        counted["from_ps"],
        counted["from_workers"],
        record["workloads"][workload]["compute_secs"],
        tasks_cpu + counted["wire_cpu_secs"],
    )
    wire, ahead = Wire(options["delay_ms"] / 1000, options["mbit"] * 1e6 / 8), "prefetch_pulls=1" in contender
    most = batches_per_sec(used, wire, options["num_workers"], record["machine"]["cores"], ahead)
    return used.pulled, used.pushed, most * batch, spread_of([run["examples_per_sec"] for run in runs]).median
