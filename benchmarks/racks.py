"""`python -m benchmarks racks`: two racks of three workers under a slow core, with sums of racks and with flat pushes.

Each rack has a ps and three workers, in network namespaces.  A packet to the other rack passes a way into the core that
the rack's tasks share, with a tenth of the bandwidth that each of them has.  Rounds are interleaved.  Root only.

The bound.  A ps holds half of M bytes.  Flat, the three workers of a rack pull half of M from the other rack and push
half of M into it, and the other rack does the same: 3 M cross in each direction in each step.  With racks, M does.  So
the bytes are a third, and a step of nothing but the core's time would be 3 times as fast.  Inside a rack, the
aggregator sends M to each of two workers at ten times the rate, and gets M from each: 0.3 M more of the core's time.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from benchmarks import machine, results
from benchmarks.namespaces import Network
from benchmarks.processes import Processes, Program
from benchmarks.run import step_of
from benchmarks.table import markdown
from tests.support.machine.ports import free_ports

DELAY_MS, MBIT, CORE_MBIT = 0.1, 400.0, 40.0
RACKS = {"ps:0": "a", "ps:1": "b", **{f"worker:{index}": "aaabbb"[index] for index in range(6)}}
_MODEL = ("--model=benchmarks.workloads.sleeper:Sleeper", "--model_arg=pause_ms=1", "--update=sync")
_BYTES = 4 * 4 * 60 * 1011
"""Of the model."""
_WARM_SECS, _START_SECS = 10.0, 400.0


def run(options: argparse.Namespace) -> int:
    record: dict[str, Any] = {"date": results.today(), "machine": machine.machine(), "secs": options.secs}
    record |= {"load_before": machine.load_average(), "runs": {"flat": [], "racks": []}}
    with Network(list(RACKS), DELAY_MS, MBIT, RACKS, CORE_MBIT) as network:
        for _ in range(options.repeats):
            for name, runs in record["runs"].items():
                runs.append(measure(network, name == "racks", options.secs))
                print(name, runs[-1], machine.load_average(), flush=True)
                record["load_after"] = machine.load_average()
                results.store("racks", record, report(record), "", options.results)
    print(report(record))
    return 0


def measure(network: Network, has_racks: bool, secs: float) -> dict[str, float]:
    """Returns the steps per second, and the bytes over the core of each step."""
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory), endless=True) as processes:
        for program in _programs(network, has_racks, pathlib.Path(directory)):
            chief = processes.start(program)
        first = chief.wait_for(lambda line: step_of(line) > 0, _START_SECS)
        begin = chief.wait_for(lambda line: step_of(line) > 0 and line.time > first.time + _WARM_SECS, _START_SECS)
        before = network.core_bytes()
        end = chief.wait_for(lambda line: step_of(line) > 0 and line.time > begin.time + secs, _START_SECS)
        steps = step_of(end) - step_of(begin)
        crossed = (network.core_bytes() - before) / steps
        return {"steps_per_sec": round(steps / (end.time - begin.time), 3), "core_bytes_per_step": round(crossed)}


def _programs(network: Network, has_racks: bool, directory: pathlib.Path) -> list[Program]:
    """Returns the programs of all tasks; the chief is the last one."""
    ports = dict(zip(RACKS, free_ports(len(RACKS)), strict=True))
    flags = [*_MODEL, f"--model_dir={directory}/model", "--max_steps=1000000000", "--log_secs=0.5", "--save_secs=36000"]
    flags += ["--steps_per_run=1", "--startup_timeout_secs=400"]
    for kind in ("ps", "worker"):
        hosts = [f"{network.places[task].host}:{ports[task]}" for task in RACKS if task.startswith(f"{kind}:")]
        flags.append(f"--{kind}_hosts={','.join(hosts)}")
    if has_racks:
        (directory / "racks.json").write_text(json.dumps(RACKS))
        flags.append(f"--rack_file={directory}/racks.json")

    def program(task: str) -> Program:
        job_name, _, index = task.partition(":")
        command = [*network.places[task].prefix, sys.executable, "-m", "ps_train", *flags]
        return Program(task, [*command, f"--job_name={job_name}", f"--task_index={index}"])

    return [program(task) for task in sorted(RACKS, key=lambda task: task == "worker:0")]


def report(record: Mapping[str, Any]) -> str:
    """Returns the results as text."""
    medians: dict[str, dict[str, float]] = {}
    rows = []
    for name, runs in record["runs"].items():
        if not runs:
            continue
        found = medians[name] = {key: statistics.median(one[key] for one in runs) for key in runs[0]}
        rates = sorted(one["steps_per_sec"] for one in runs)
        crossed = found["core_bytes_per_step"] / _BYTES
        rows.append([name, f"{found['steps_per_sec']:.2f} ({rates[0]:.2f} - {rates[-1]:.2f})", f"{crossed:.2f} M"])
    lines = [f"# Racks, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += [
        f"Two racks of a ps and three workers. {MBIT:g} Mbit/s for each task and {CORE_MBIT:g} Mbit/s from each rack "
        f"into the core, {DELAY_MS:g} ms of delay. A model of M = {_BYTES / 1e6:.2f} MB without compute, under `sync`. "
        f"Medians (lowest - highest) of {len(record['runs']['flat'])} interleaved rounds of {record['secs']:g} s. Load "
        f"average before and after: {record['load_before']}, {record.get('load_after')}. The bound: 6 M over the core "
        "in a flat step and 2 M with racks, both directions together.",
        "",
        markdown(["", "steps/s", "over the core in a step"], rows),
    ]
    if len(medians) == 2:
        flat, racks = medians["flat"], medians["racks"]
        ratio, crossed = (racks[key] / flat[key] for key in ("steps_per_sec", "core_bytes_per_step"))
        lines += ["", f"With racks: {ratio:.2f} times the steps, {crossed:.2f} of the bytes over the core."]
    return "\n".join(lines) + "\n"
