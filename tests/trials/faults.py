"""`python -m tests.trials faults`: measures what faults cost.

Each is injected once into a job of 2 workers whose steps take about 5 ms; times are seconds after the fault.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import time

from tests.support.machine.processes import Process
from tests.trials.running import own_processes

FLAGS = (
    "--model=tests.support.models.small:Counting", "--batch_size=1", "--shuffle_buffer=0", "--log_secs=0.1",
    "--max_restarts=3", "--save_steps=100", "--max_steps=2500",
)  # fmt: skip
FAULTS = {
    "a ps is killed, async": ("kill:ps:1@450", "--num_ps=2", "--update=async"),
    "a ps is killed, sync": ("kill:ps:1@450", "--num_ps=2", "--update=sync"),
    "a worker is killed, async": ("kill:worker:1@450", "--update=async"),
    "a worker is killed, sync": ("kill:worker:1@450", "--update=sync"),
    "the chief is killed, async": ("kill:worker:0@450", "--update=async"),
    "a worker sleeps 5 s, sync": ("stop:worker:1@450+5s", "--update=sync"),
    "a worker sleeps 15 s, sync": ("stop:worker:1@450+15s", "--update=sync"),
    "a ps sleeps 5 s, async": ("stop:ps:0@450+5s", "--update=async"),
    "a worker is 5 times slower, async": ("slow:worker:1x5", "--update=async"),
    "a worker is 5 times slower, sync": ("slow:worker:1x5", "--update=sync"),
    "1 % of pushes are lost, async": ("drop_push:0.01", "--update=async"),
}


class Watched:
    """What a launcher prints, with the times."""

    def __init__(self, run: Process) -> None:
        self.lines: list[tuple[float, str]] = []
        while run.process.poll() is None or len(self.lines) < len(run.lines):
            self.lines += [(time.monotonic(), line) for line in run.lines[len(self.lines) :]]
            time.sleep(0.01)

    def first(self, pattern: str, after: float = 0.0) -> float | None:
        return next((at for at, line in self.lines if at > after and re.search(pattern, line)), None)

    def longest_pause(self, after: float) -> float:
        """The longest time without a step, by the progress lines."""
        steps = [(at, int(line[5:].partition("/")[0])) for at, line in self.lines if line.startswith("step ")]
        seen = [at for (at, step), (_, before) in zip(steps[1:], steps, strict=False) if step != before]
        times = [after, *(at for at in seen if at > after)]
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)


def measure(name: str, inject: str, *flags: str) -> str:
    with own_processes("fault") as processes:
        model_dir = processes.directory / "model"
        run = processes.run(*FLAGS, f"--inject_fault={inject}", *flags, f"--model_dir={model_dir}")
        watched = Watched(run)
        result = json.loads((model_dir / "result.json").read_text())
    struck = watched.first(" strikes at step ")
    told = [f"code {run.wait(1)}", f"step {result['global_step']}", f"{result['steps_per_sec']} steps/s"]
    told.append(f"dropped {result['dropped']}")
    if struck is not None:
        said = watched.first(r"warning: (lost|.*has said nothing|.*has left|.*is gone)", struck)
        told.append(f"pause {watched.longest_pause(struck):.1f}s")
        told += [f"told after {said - struck:.1f}s"] if said else []
    told += [line for _, line in watched.lines if re.search("updates lost|went to sleep|still there", line)]
    if "save" in result:
        told.append(f"save {result['save']}")
    return f"{name}: " + "; ".join(told)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.trials faults", description=__doc__)
    parser.add_argument("--only", default="", help="only those whose name has this in it")
    only = parser.parse_args(arguments).only
    for name, fault in FAULTS.items():
        if only in name:
            print(measure(name, *fault), flush=True)
    return 0
