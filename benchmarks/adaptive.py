"""`python -m benchmarks adaptive`: values that follow measurements against each fixed one, on four profiles.

    even        alike workers on a fast network             --push_codec
    straggler   one of three workers is three times slower  --max_steps_ahead (bounded)
    degrading   the network becomes slow in the middle      --push_codec
    routes      one of two ps is behind a slow line         --ps_weights

Ps and workers are real processes in network namespaces with a slow wire between them.  A run is measured from some
seconds after its first step on, with all its trials.  Rounds are interleaved.  Root only; skipped otherwise.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import machine, results
from benchmarks.contenders import Place
from benchmarks.namespaces import Network
from benchmarks.processes import Processes, Program
from benchmarks.run import step_of
from benchmarks.table import markdown
from benchmarks.uneven import PAUSE_VARIABLE
from tests.support.machine.ports import free_ports

DELAY_MS, MBIT, SLOW_MBIT, LINE_MBIT = 0.5, 1000.0, 80.0, 150.0
ALLOWED = 0.95
"""Smallest ratio of the examples/s with the following value to those with the best fixed one."""
_WARM_SECS, _START_SECS = 5.0, 300.0

_CODECS = tuple(f"--push_codec={codec}" for codec in ("none", "bfloat16", "int8", "auto"))
_LEADS = tuple(f"--max_steps_ahead={lead}" for lead in ("0", "2", "4", "0..4"))
_WEIGHTS = tuple(f"--ps_weights={weights}" for weights in ("1,1", "1,0.15", "auto"))
_PAUSED = ("--model=benchmarks.workloads.sleeper:Sleeper", "--model_arg=pause_ms=20")


@dataclasses.dataclass(frozen=True)
class Profile:
    """A profile.

    Attributes:
      flags: the flags of its job.
      choices: the flags that are compared; the last one follows measurements.
      pauses: the pause of each worker's step, for models that pause by their environment.
      degrades: the network becomes slow in the middle.
      num_ps: number of ps; the second one is behind a slow line.
    """

    flags: Sequence[str]
    choices: Sequence[str]
    pauses: Sequence[int] = (0, 0)
    degrades: bool = False
    num_ps: int = 1

    def tasks(self) -> list[str]:
        """Returns the tasks of its job."""
        ps = [f"ps:{index}" for index in range(self.num_ps)]
        return ps + [f"worker:{index}" for index in range(len(self.pauses))]

    def network(self) -> Network:
        """Returns a network for its tasks."""
        tasks = self.tasks()
        racks = {task: "far" if task == "ps:1" else "near" for task in tasks} if self.num_ps > 1 else {}
        return Network(tasks, DELAY_MS, MBIT, racks, LINE_MBIT)


PROFILES = {
    "even": Profile((*_PAUSED, "--update=async"), _CODECS),
    "straggler": Profile(("--model=benchmarks.uneven:UnevenDigits", "--update=bounded"), _LEADS, (20, 20, 60)),
    "degrading": Profile((*_PAUSED, "--update=async"), _CODECS, degrades=True),
    "routes": Profile((*_PAUSED, "--update=sync"), _WEIGHTS, num_ps=2),
}


def run(options: argparse.Namespace) -> int:
    record: dict[str, Any] = {"date": results.today(), "machine": machine.machine(), "secs": options.secs}
    record |= {"load_before": machine.load_average(), "profiles": {name: {} for name in PROFILES}}
    for _ in range(options.repeats):
        for name, profile in PROFILES.items():
            with profile.network() as network:
                for choice in profile.choices:
                    found = measure(profile, choice, network, options.secs)
                    record["profiles"][name].setdefault(choice, []).append(found)
                    print(name, choice, found, machine.load_average(), flush=True)
            record["load_after"] = machine.load_average()
            results.store("adaptive", record, report(record), "", options.results)
    print(report(record))
    return 0


def measure(profile: Profile, choice: str, network: Network, secs: float) -> dict[str, Any]:
    """Returns the steps per second of the job, and its changes of the value."""
    places = network.places
    network.pace(MBIT)
    with tempfile.TemporaryDirectory() as directory, Processes(pathlib.Path(directory), endless=True) as processes:
        for program in _programs(profile, choice, places, directory):
            chief = processes.start(program)
        first = chief.wait_for(lambda line: step_of(line) > 0, _START_SECS)
        begin = chief.wait_for(lambda line: step_of(line) > 0 and line.time > first.time + _WARM_SECS, _START_SECS)
        changes: list[str] = []
        line, last, is_slow = begin, begin, False
        while line.time < begin.time + secs:
            line = chief.wait_for(lambda line: step_of(line) > 0 or " from step " in line.text, _START_SECS)
            if " from step " in line.text:
                changes.append(line.text)
            elif profile.degrades and not is_slow and time.monotonic() > begin.time + secs / 2:
                network.pace(SLOW_MBIT)
                is_slow = True
            last = line if step_of(line) > 0 else last
        rate = (step_of(last) - step_of(begin)) / (last.time - begin.time)
        return {"steps_per_sec": round(rate, 2), "changes": changes}


def _programs(profile: Profile, choice: str, places: Mapping[str, Place], directory: str) -> list[Program]:
    """Returns the programs of all tasks; the chief is the last one."""
    ports = dict(zip(places, free_ports(len(places)), strict=True))
    flags = [*profile.flags, choice, f"--model_dir={directory}/model", "--max_steps=1000000000", "--log_secs=0.5"]
    for kind in ("ps", "worker"):
        hosts = [f"{places[task].host}:{ports[task]}" for task in places if task.startswith(f"{kind}:")]
        flags.append(f"--{kind}_hosts={','.join(hosts)}")

    def program(task: str) -> Program:
        job_name, _, index = task.partition(":")
        command = [*places[task].prefix, sys.executable, "-m", "ps_train", *flags]
        pause = str(profile.pauses[int(index)] if job_name == "worker" else 0)
        return Program(task, [*command, f"--job_name={job_name}", f"--task_index={index}"], {PAUSE_VARIABLE: pause})

    return [program(task) for task in sorted(places, key=lambda task: task == "worker:0")]


def ratio_to_best(choices: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[str, float, float]:
    """Returns the best fixed choice, and the median rate of the following one over that of the best and the worst."""
    rates = {choice: statistics.median(one["steps_per_sec"] for one in runs) for choice, runs in choices.items()}
    *fixed, following = rates
    best, worst = max(fixed, key=rates.__getitem__), min(fixed, key=rates.__getitem__)
    return best, rates[following] / rates[best], rates[following] / rates[worst]


def report(record: Mapping[str, Any]) -> str:
    rows = []
    for name, choices in record["profiles"].items():
        if len(choices) < len(PROFILES[name].choices):
            continue
        best, to_best, to_worst = ratio_to_best(choices)
        for choice, runs in choices.items():
            rates = sorted(one["steps_per_sec"] for one in runs)
            shown = f"{statistics.median(rates):.1f} ({rates[0]:.1f} - {rates[-1]:.1f})"
            follows = choice == PROFILES[name].choices[-1]
            ratio = f"**{to_best:.2f}** of `{best}`, {to_worst:.2f} of the worst" if follows else ""
            rows.append([name, f"`{choice}`", shown, ratio])
    runs_each = max((len(runs) for choices in record["profiles"].values() for runs in choices.values()), default=0)
    lines = [f"# Values that follow measurements, {record['date']}", "", machine.text(record["machine"]), ""]
    lines += [
        f"{DELAY_MS:g} ms of delay each way and {MBIT:g} Mbit/s between all tasks; *degrading*: {SLOW_MBIT:g} Mbit/s "
        f"in the second half; *routes*: {LINE_MBIT:g} Mbit/s to one of two ps. Global steps per second over "
        f"{record['secs']:g} s, from {_WARM_SECS:g} s after the first step, with all trials: medians (lowest - "
        f"highest) of {runs_each} interleaved rounds. A following value should reach {ALLOWED:g} of the best one.",
        "",
        markdown(["profile", "flag", "steps/s", "the following value"], rows),
        "",
        f"Load average before {record['load_before']}, after {record.get('load_after')}.",
    ]
    return "\n".join(lines) + "\n"
