"""`python -m benchmarks`: all contenders on all workloads, interleaved; medians, a table, a plot, a dated record.

The record: {"date", "machine", "load_before", "calibration", "options", "workloads": {name: {"about", "parameters",
"batch_size", "check_steps", "tolerance", "updates": {contender: "async"}, "runs": {contender: [Measured as a dict]},
"losses": {contender: test loss}, "failures": {contender: text}, "skipped": {contender: reason}}}}.  A contender that
fails ends the comparison, and only rounds that were complete are stored; failures are in older records.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import Any

from benchmarks import machine, report, results
from benchmarks.calibration import calibrate
from benchmarks.contenders import Contender, Setting, contenders_of, reason_to_skip, torch_python_for
from benchmarks.run import check_loss, measure
from benchmarks.workloads import workload_class

DEFAULT_WORKLOADS = "small,wide,large"
DEFAULT_CONTENDERS = "ours,bare,classic,pss,single,torch"


def run(options: argparse.Namespace) -> int:
    contenders = contenders_of(options.contenders)
    here = machine.machine(torch_python_for(contenders, options.torch_python))
    record: dict[str, Any] = {
        "date": results.today(),
        "machine": here,
        "load_before": machine.load_average(),
        "calibration": dataclasses.asdict(calibrate()),
        "options": {name: getattr(options, name) for name in ("repeats", "secs", "num_ps", "num_workers")},
        "workloads": {name: _new(name, contenders, here) for name in options.workloads},
    }
    if options.check:
        for name, workload in record["workloads"].items():
            _check_losses(name, workload, contenders, options)
    for number in range(options.repeats):
        for name, workload in record["workloads"].items():
            _one_round(name, workload, contenders, options, number)
        results.store("compare", record, report.markdown_of(record), report.plot_of(record), options.results)
    text = report.markdown_of(record)
    results.store("compare", record, text, report.plot_of(record), options.results)
    print(text)
    return 0


def _new(name: str, contenders: list[Contender], here: dict[str, str | int]) -> dict[str, Any]:
    workload = workload_class(name)
    skipped = {one.name: reason for one in contenders if (reason := reason_to_skip(one, workload, here))}
    return {
        "about": workload.about,
        "parameters": workload.parameters,
        "batch_size": workload.batch_size,
        "check_steps": workload.check_steps,
        "tolerance": workload.tolerance,
        "updates": {one.name: one.update for one in contenders},
        "runs": {one.name: [] for one in contenders if one.name not in skipped},
        "losses": {},
        "failures": {},
        "skipped": skipped,
    }


def _one_round(
    name: str, workload: dict[str, Any], contenders: list[Contender], options: argparse.Namespace, number: int
) -> None:
    """Every contender once; each round begins with another one, so that none always follows the same."""
    turned = contenders[number % len(contenders) :] + contenders[: number % len(contenders)]
    for contender in (one for one in turned if one.name in workload["runs"]):
        measured = measure(contender, setting_of(name, options), options.secs)
        workload["runs"][contender.name].append(dataclasses.asdict(measured))
        _say(f"round {number + 1}  {name}  {contender.name}  {measured.examples_per_sec:.0f} examples/s")


def _check_losses(
    name: str, workload: dict[str, Any], contenders: list[Contender], options: argparse.Namespace
) -> None:
    for contender in contenders:
        if contender.name not in workload["runs"] or contender.kind == "bare":
            continue  # bare never ends, and is ours
        loss = check_loss(contender, setting_of(name, options, workload["check_steps"]))
        workload["losses"][contender.name] = loss
        _say(f"check  {name}  {contender.name}  test loss {loss:.4f} after {workload['check_steps']} steps")


def setting_of(name: str, options: argparse.Namespace, max_steps: int = 0) -> Setting:
    return Setting(name, max_steps, options.num_ps, options.num_workers, torch_python=options.torch_python)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
