"""`python -m benchmarks batch_size`: a batch size that follows the network against a fixed one, over a slow wire.

Ps and workers are in network namespaces.  Each task's packets are delayed by 10 ms (20 ms there and back) and paced at
1 Gbit/s.  Both jobs start with the same size.  When it no longer changes, the examples per second are read from the
progress lines.  Rounds are interleaved.  Root only; skipped otherwise.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import machine, results
from benchmarks.contenders import Place
from benchmarks.namespaces import Network
from benchmarks.processes import Processes, Program
from benchmarks.run import step_of
from benchmarks.workloads import workload_class
from tests.support.machine.ports import free_ports

DELAY_MS, MBIT = 10.0, 1000.0
GROWTH = 8
"""Ratio of the largest size to the first one."""
_SETTLE_SECS, _MOST_SECS, _START_SECS = 60.0, 600.0, 600.0
"""Seconds without a change of the size before it is measured, and the most for that; limit of the start."""
_RATE, _SIZE = re.compile(r" (\d+) examples/s"), re.compile(r" batch (\d+) ")


def run(options: argparse.Namespace) -> int:
    record: dict[str, Any] = {"date": results.today(), "machine": machine.machine(), "secs": options.secs}
    record |= {"load_before": machine.load_average(), "update": {}}
    tasks = [f"ps:{index}" for index in range(options.num_ps)]
    tasks += [f"worker:{index}" for index in range(options.num_workers)]
    with Network(tasks, DELAY_MS, MBIT) as network:
        for _ in range(options.repeats):
            for update in ("async", "sync"):
                for name in options.workloads:
                    first = workload_class(name).batch_size
                    for sizes in (f"{first}", f"{first}..{GROWTH * first}"):
                        found = measure(name, sizes, update, network.places, options.secs)
                        of_update = record["update"].setdefault(update, {}).setdefault(name, {})
                        of_update.setdefault(sizes, []).append(found)
                        print(update, name, sizes, *found, flush=True)
                    record["load_after"] = machine.load_average()
                    results.store("batch-size", record, report(record), "", options.results)
    print(report(record))
    return 0


def measure(name: str, sizes: str, update: str, places: Mapping[str, Place], secs: float) -> tuple[float, int]:
    """Returns examples per second after the time to settle, and the batch size at the end."""
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory), endless=True) as processes:
        for program in _programs(name, sizes, update, places, directory):
            chief = processes.start(program)
        begin = chief.wait_for(lambda line: step_of(line) > 0, _START_SECS)
        line, size, changed = begin, "", begin.time
        while line.time < min(changed + _SETTLE_SECS, begin.time + _MOST_SECS):
            line = chief.wait_for(lambda line: step_of(line) > 0, _START_SECS)
            if _number(_SIZE, line.text) != size:
                size, changed = _number(_SIZE, line.text), line.time
        rates, end = [], line.time + secs
        while line.time < end:
            line = chief.wait_for(lambda line: step_of(line) > 0, _START_SECS)
            rates.append(float(_number(_RATE, line.text)))
        return statistics.fmean(rates), int(_number(_SIZE, line.text) or sizes)


def _number(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _programs(name: str, sizes: str, update: str, places: Mapping[str, Place], directory: str) -> list[Program]:
    """Returns the programs of all tasks; the chief is the last one."""
    model = workload_class(name)
    ports = dict(zip(places, free_ports(len(places)), strict=True))
    flags = [f"--model={model.__module__}:{model.__name__}", f"--update={update}", f"--batch_size={sizes}"]
    for kind in ("ps", "worker"):
        hosts = [f"{places[task].host}:{ports[task]}" for task in places if task.startswith(f"{kind}:")]
        flags.append(f"--{kind}_hosts={','.join(hosts)}")
    flags += [f"--model_dir={directory}/model", "--max_steps=1000000000", "--log_secs=2"]

    def program(task: str) -> Program:
        job_name, _, index = task.partition(":")
        of_task = [f"--job_name={job_name}", f"--task_index={index}"]
        return Program(task, [*places[task].prefix, sys.executable, "-m", "ps_train", *flags, *of_task])

    return [program(task) for task in sorted(places, key=lambda task: task == "worker:0")]


def report(record: Mapping[str, Any]) -> str:
    lines = [f"# A batch size that follows the network, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += [
        f"{DELAY_MS:g} ms of delay each way and {MBIT:g} Mbit/s between all tasks. Examples per second over "
        f"{record['secs']:g} s, {_SETTLE_SECS:g} s after the last change of the size; medians of interleaved "
        "rounds, and the sizes at the end.",
        "",
        "| workload | update | fixed | follows the network | sizes at the end | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for update, workloads in record["update"].items():
        for name, sizes in workloads.items():
            lines.append(_row(name, update, sizes))
    rounds = len(next(iter(next(iter(next(iter(record["update"].values())).values())).values())))
    lines += ["", f"{rounds} rounds. Load average before {record['load_before']}, after {record['load_after']}."]
    return "\n".join(lines) + "\n"


def _row(name: str, update: str, sizes: Mapping[str, Sequence[tuple[float, int]]]) -> str:
    fixed, growing = sizes
    rates = {one: statistics.median(rate for rate, _ in found) for one, found in sizes.items()}
    ends = ", ".join(str(size) for _, size in sizes[growing])
    shown = " | ".join(f"{rates[one]:.0f} (`{one}`)" for one in (fixed, growing))
    return f"| {name} | {update} | {shown} | {ends} | **{rates[growing] / rates[fixed]:.2f}** |"
