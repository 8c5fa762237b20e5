"""`python -m benchmarks alternate`: contenders that all run at once, of which all but one are frozen, by turns.

A machine that others use too is faster in one minute than in the next.  Contenders that are started anew for each
round are minutes apart.  Here all are started, each is frozen when it has settled, and then each one is woken for some
seconds in every round, so that those that are compared are seconds apart.  Ratios are of the windows of one round, to
those of the first contender.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import time
from collections.abc import Mapping
from typing import Any

from benchmarks import machine, results
from benchmarks.compare import setting_of
from benchmarks.contenders import Contender, Setting, contenders_of, reason_to_skip, torch_python_for
from benchmarks.errors import SkippedError
from benchmarks.run import run_of, settle_all, steady_rate
from benchmarks.summary import spread_of
from benchmarks.table import markdown
from benchmarks.workloads import workload_class

_WAKE_SECS = 3.0
"""After a contender is woken and before it is measured: caches fill again, and what was overdue is done."""

_PATIENT = ("--heartbeat_timeout_secs=86400", "--recovery_timeout_secs=86400")
"""Our tasks must not take one another for lost because they were frozen."""


def run(options: argparse.Namespace) -> int:
    contenders = contenders_of(options.contenders)
    here = machine.machine(torch_python_for(contenders, options.torch_python))
    record: dict[str, Any] = {
        "date": results.today(),
        "machine": here,
        "load_before": machine.load_average(),
        "options": {name: getattr(options, name) for name in ("repeats", "secs", "num_ps", "num_workers")},
        "workloads": {name: _measured(name, _fit(contenders, name, here), options) for name in options.workloads},
    }
    text = report_of(record)
    results.store("alternate", record, text, "", options.results)
    print(text)
    return 0


def _fit(contenders: list[Contender], name: str, here: Mapping[str, str | int]) -> list[Contender]:
    """Those that can be measured on a workload; says why the others are left out."""
    reasons = {one.name: reason_to_skip(one, workload_class(name), here) for one in contenders}
    for left_out, reason in reasons.items():
        if reason:
            print(f"{left_out} is skipped on {name}: {reason}")
    if all(reasons.values()):
        raise SkippedError(f"no contender can be measured on {name}")
    return [one for one in contenders if not reasons[one.name]]


def _measured(name: str, contenders: list[Contender], options: argparse.Namespace) -> dict[str, list[float]]:
    """Examples per second of each contender's windows."""
    setting = setting_of(name, options)
    with contextlib.ExitStack() as stack:
        jobs = {one.name: stack.enter_context(_Frozen(one, setting)) for one in contenders}
        found: dict[str, list[float]] = {name: [] for name in jobs}
        for number in range(options.repeats):
            for contender in list(jobs)[:: 1 if number % 2 == 0 else -1]:
                found[contender].append(jobs[contender].window(options.secs))
    return found


class _Frozen:
    """A contender that has settled, and that runs only while it is measured."""

    def __init__(self, contender: Contender, setting: Setting) -> None:
        is_ours = contender.kind.startswith(("ours-", "on-workers-"))
        flags = (*contender.flags, *_PATIENT) if is_ours else contender.flags
        self._contender, self._setting = dataclasses.replace(contender, flags=flags), setting
        self._workload = workload_class(setting.workload)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> _Frozen:
        with contextlib.ExitStack() as stack:
            self._processes = stack.enter_context(run_of(self._contender, self._setting, endless=True))
            self._speakers = self._processes.running[-self._contender.speakers :]
            settle_all(self._processes, self._speakers, self._workload)
            self._processes.freeze()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def window(self, secs: float) -> float:
        """Wakes it for so many seconds; returns its examples per second."""
        for speaker in self._speakers:
            speaker.take()
        self._processes.wake()
        rate = steady_rate(self._processes, self._speakers, time.monotonic() + _WAKE_SECS, secs)
        self._processes.freeze()
        return rate * self._workload.batch_size * self._contender.batches_per_step(self._setting.num_workers)


def report_of(record: dict[str, Any]) -> str:
    """The tables of a record."""
    options = record["options"]
    lines = [
        f"# Measured by turns on {record['date']}",
        "",
        f"{machine.text(record['machine'])}; load average before: {record['load_before']}",
        "",
        f"{options['num_ps']} ps and {options['num_workers']} workers.  All contenders run at once, and all but one "
        f"are frozen; {options['repeats']} rounds of {options['secs']:g} s each.  Medians (lowest - highest).",
    ]
    for name, windows in record["workloads"].items():
        first, *_ = windows.values()
        rows = [
            [
                contender,
                spread_of(rates).text(),
                spread_of([rate / other for rate, other in zip(rates, first, strict=True)]).text(),
            ]
            for contender, rates in windows.items()
        ]
        lines += ["", f"## {name}: {workload_class(name).about}", ""]
        lines.append(markdown(["contender", "examples/s", "of the first in the same round"], rows))
    return "\n".join([*lines, ""])
