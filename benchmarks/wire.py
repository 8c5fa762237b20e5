"""`python -m benchmarks wire`: bytes on the wire and RPCs for one batch, against the least that is possible.

Bytes are counted by the loopback interface of a namespace in which the contender runs alone (root only); RPCs in the
graphs of one step, for those contenders whose programs can tell: `bare`, which has our graph, and the classic recipe.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import tempfile
from typing import Any

from benchmarks import machine, results
from benchmarks.contenders import Contender, Setting, contenders_of, reason_to_skip, torch_python_for
from benchmarks.namespaces import Loopback
from benchmarks.processes import Processes
from benchmarks.run import START_SECS, settle, step_of
from benchmarks.summary import short
from benchmarks.table import markdown
from benchmarks.workloads import workload_class

_COUNTING = ("bare", "classic-async")
_RPCS_AT_LEAST = 4
"""For each ps: run, clean up, pull, push."""


def run(options: argparse.Namespace) -> int:
    contenders = contenders_of(options.contenders)
    here = machine.machine(torch_python_for(contenders, options.torch_python))
    record: dict[str, Any] = {"date": results.today(), "machine": here, "workloads": {}}
    for name in options.workloads:
        record["workloads"][name] = {}
        for contender in contenders:
            if reason := reason_to_skip(contender, workload_class(name), here):
                print(f"{contender.name} is skipped on {name}: {reason}")
                continue
            setting = Setting(name, 0, options.num_ps, options.num_workers, torch_python=options.torch_python)
            record["workloads"][name][contender.name] = _counted(contender, setting, options.secs)
    text = _report(record, options.num_ps)
    results.store("wire", record, text, "", options.results)
    print(text)
    return 0


def _counted(contender: Contender, setting: Setting, secs: float) -> dict[str, float | None]:
    counting = contender.kind in _COUNTING
    return {
        "bytes": bytes_per_batch(contender, setting, secs),
        "rpcs": rpcs_per_step(contender, setting) if counting else None,
    }


def bytes_per_batch(contender: Contender, setting: Setting, secs: float) -> float:
    """What crosses the interface for one batch of one worker, headers and heartbeats included."""
    workload = workload_class(setting.workload)
    with (
        tempfile.TemporaryDirectory() as directory,
        Loopback() as alone,
        Processes(pathlib.Path(directory), endless=True) as processes,
    ):
        for program in contender.programs(setting):
            processes.start(dataclasses.replace(program, command=[*alone.prefix, *program.command]))
        speaker = processes.running[-1]
        begin = settle(speaker, workload)
        sent = alone.bytes_sent()
        end = speaker.wait_for(lambda line: step_of(line) >= 0 and line.time >= begin.time + secs, START_SECS)
        sent = alone.bytes_sent() - sent
    return sent / ((step_of(end) - step_of(begin)) * contender.batches_per_step(setting.num_workers))


def rpcs_per_step(contender: Contender, setting: Setting) -> float:
    counting = dataclasses.replace(contender, flags=(*contender.flags, "--count_rpcs"))
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory)) as processes:
        for program in counting.programs(setting):
            processes.start(program)
        line = processes.running[-1].wait_for(lambda line: line.text.startswith("rpcs "), START_SECS)
    return int(line.text.split()[1])


def _report(record: dict[str, Any], num_ps: int) -> str:
    lines = [f"# On the wire, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += ["The least: 8 bytes for each parameter (fp32, pulled and pushed), and 4 RPCs for each ps.", ""]
    rows = []
    for name, contenders in record["workloads"].items():
        least = 8 * workload_class(name).parameters
        for contender, found in contenders.items():
            rpcs = "-" if found["rpcs"] is None else f"{found['rpcs']:.0f}"
            row = [contender, name, f"{found['bytes']:.0f}", short(found["bytes"] / least), rpcs]
            rows.append([*row, f"{_RPCS_AT_LEAST * num_ps}"])
    head = ["contender", "workload", "bytes a batch", "x least", "RPCs a step", "least"]
    return "\n".join([*lines, markdown(head, rows), ""])
