"""`python -m benchmarks slow`: ps and workers in network namespaces with delay and a rate limit between them.

Each task's packets are delayed by 1 ms (so 2 ms there and back) and paced at 1 Gbit/s.  Root only; skipped otherwise.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from benchmarks import machine, report, results
from benchmarks.contenders import Setting, contenders_of, torch_python_for
from benchmarks.errors import ContenderError
from benchmarks.namespaces import Network, check_possible
from benchmarks.run import measure
from benchmarks.workloads import workload_class

DELAY_MS, MBIT = 1.0, 1000.0
SHAPE = f"delay {DELAY_MS:g} ms, {MBIT:g} Mbit/s"


def run(options: argparse.Namespace) -> int:
    check_possible()
    contenders = [one for one in contenders_of(options.contenders) if one.update != "none"]
    record: dict[str, Any] = {
        "date": results.today(),
        "machine": machine.machine(torch_python_for(contenders, options.torch_python)),
        "load_before": machine.load_average(),
        "options": {name: getattr(options, name) for name in ("repeats", "secs", "num_ps", "num_workers")},
        "network": SHAPE,
        "workloads": {},
    }
    for name in options.workloads:
        workload = workload_class(name)
        record["workloads"][name] = {
            "about": f"{workload.about}; {SHAPE}",
            "updates": {one.name: one.update for one in contenders},
            "runs": {one.name: [] for one in contenders},
            "losses": {},
            "failures": {},
            "skipped": {},
            "check_steps": 0,
            "tolerance": 0.0,
        }
    tasks = [f"ps:{index}" for index in range(options.num_ps)]
    tasks += [f"worker:{index}" for index in range(options.num_workers)] + ["chief:0"]
    with Network(tasks, DELAY_MS, MBIT) as network:
        for _ in range(options.repeats):
            for name, found in record["workloads"].items():
                for contender in contenders:
                    setting = Setting(name, 0, options.num_ps, options.num_workers, network.places)
                    setting = dataclasses.replace(setting, torch_python=options.torch_python)
                    try:
                        measured = measure(contender, setting, options.secs)
                    except ContenderError as error:
                        found["failures"][contender.name] = str(error)
                        continue
                    found["runs"][contender.name].append(dataclasses.asdict(measured))
    text = report.markdown_of(record, judged=False)
    results.store("slow", record, text, report.plot_of(record), options.results)
    print(text)
    return 0
