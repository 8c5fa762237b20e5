"""The job of a soak test: a local cluster of real processes that trains a tiny model, each step a call of its own.

plan = Plan(calls=300_000, workers=1)
outcome = soak(plan, directory, show=print)
errors_of(plan, outcome)            # empty where the job did what it must, whatever its memory did
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from tests.support.machine.proc import command_of, name_of
from tests.support.machine.processes import Process, Processes
from tests.trials.soak.sampling import disk_of, sample_of
from tests.trials.soak.verdict import Disk, Sample

BATCH_SIZE = 4
REFUSED = "a call was refused because of its id"
"""What `ps_train/cluster/sessions/calls.py` logs."""

STALL_SECS = 300.0
"""A job that shows no new step for so long hangs; start and end are slow on a busy machine."""
_END_SECS = 20.0
_POLL_SECS = 0.1
_SHOWN = 10
LAUNCHER = "launcher"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is run.

    Attributes:
      calls: `session.run` calls of training that each worker makes.
      flags: further ones of the job.
      part: earlier parts of the job; each has made as many calls, and this one resumes from its checkpoint.
      is_paced: each call waits for some milliseconds, as those of a larger model would.
    """

    calls: int
    update: str = "async"
    num_ps: int = 1
    workers: int = 1
    sample_secs: float = 5.0
    flags: tuple[str, ...] = ()
    part: int = 0
    is_paced: bool = False

    @property
    def steps_per_call(self) -> int:
        """Global steps while each worker makes one call: under `sync` they make each step together."""
        return 1 if self.update == "sync" else self.workers

    def calls_of(self, name: str) -> int:
        """Returns how many calls a process takes part in while each worker makes one: all workers call a ps."""
        return self.workers if name.startswith("ps") else 1

    @property
    def first_step(self) -> int:
        return self.part * self.calls * self.steps_per_call

    @property
    def max_steps(self) -> int:
        return self.first_step + self.calls * self.steps_per_call

    @property
    def tasks(self) -> list[str]:
        return [f"ps:{index}" for index in range(self.num_ps)] + [f"worker:{index}" for index in range(self.workers)]

    def arguments(self, model_dir: pathlib.Path) -> list[str]:
        log = f"--log_secs={min(1.0, self.sample_secs)}"
        model = "tests.trials.soak.paced:Paced" if self.is_paced else "tests.support.models.small:Linear"
        free = [f"--model={model}", f"--batch_size={BATCH_SIZE}", log, *self.flags]
        sizes = [f"--num_ps={self.num_ps}", f"--num_workers={self.workers}", f"--max_steps={self.max_steps}"]
        return [*free, *sizes, f"--update={self.update}", "--steps_per_run=1", "--verbose", f"--model_dir={model_dir}"]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of the job.

    Attributes:
      series: the samples of each process, in order of time.
      disk: the samples of the model directory, in order of time.
      result: what the job's result.json says; {} where there is none.
      refused: calls that a task refused because of their id.
      left: command lines of processes that did not end with the job.
    """

    series: dict[str, list[Sample]]
    disk: list[Disk]
    exit_code: int
    result: dict[str, Any]
    refused: int
    secs: float
    left: list[str]
    last_lines: list[str]


def soak(plan: Plan, directory: pathlib.Path, show: Callable[[str], None]) -> Outcome:
    """Runs the job to its end.  Ends all its processes in any case.

    Args:
      plan: what is run.
      directory: gets the output of the job and its model directory; that of the earlier parts.
      show: gets a line now and then.
    """
    model_dir, processes, began = directory / "model", Processes(directory), time.monotonic()
    try:
        job = processes.run(*plan.arguments(model_dir), new=True)
        watch = Watch(plan, job, model_dir, show)
        watch.until_end()
        secs, code = time.monotonic() - began, job.wait()
        left = _left_of(job)
    finally:
        processes.end()
    path = model_dir / "result.json"
    result = json.loads(path.read_text()) if path.exists() else {}
    return Outcome(watch.series, watch.disk, code, result, refused_in(job.lines), secs, left, job.lines[-15:])


class Watch:
    """Samples the processes of a running job, and its model directory."""

    def __init__(self, plan: Plan, job: Process, model_dir: pathlib.Path, show: Callable[[str], None]) -> None:
        self.disk: list[Disk] = []
        self._model_dir, self._began = model_dir, time.monotonic()
        self.series: dict[str, list[Sample]] = {name: [] for name in (*plan.tasks, LAUNCHER)}
        self._plan, self._job, self._show = plan, job, show
        self._pids: dict[str, int] = {}
        self._read = self._step = self._shown = 0
        self._due = 0.0

    def until_end(self) -> None:
        """Returns when the job has ended, and ends the program where it makes no steps any more."""
        deadline = time.monotonic() + STALL_SECS
        while self._job.process.poll() is None:
            if self._advance():
                deadline = time.monotonic() + STALL_SECS
            if time.monotonic() > deadline:
                last = "\n".join(self._job.lines[-15:])
                sys.exit(f"no new step for {STALL_SECS:g}s after step {self._step}; the last lines:\n{last}")
            time.sleep(_POLL_SECS)

    def _advance(self) -> bool:
        """Takes a sample where the job has shown a new step and one is due; returns whether there was a new step."""
        before, self._step = self._step, self._newest_step()
        if self._step == before:
            return False
        if self._step < self._plan.max_steps and time.monotonic() >= self._due and self._knows_all():
            self._due = time.monotonic() + self._plan.sample_secs
            self._sample((self._step - self._plan.first_step) // self._plan.steps_per_call)
        return True

    def _newest_step(self) -> int:
        lines = self._job.lines[self._read :]
        self._read += len(lines)
        shown = [line for line in lines if line.startswith("step ")]
        return int(shown[-1].removeprefix("step ").partition("/")[0]) if shown else self._step

    def _knows_all(self) -> bool:
        """Finds the processes by the names that they give themselves."""
        if len(self._pids) < len(self.series):
            named = {name_of(pid): pid for pid in self._job.descendants()}
            self._pids = {name: pid for name, pid in named.items() if name in self.series} | {LAUNCHER: self._job.pid}
        return len(self._pids) == len(self.series)

    def _sample(self, calls: int) -> None:
        found = {name: sample_of(pid, calls) for name, pid in self._pids.items()}
        if None in found.values():  # the job is about to end
            return
        for name, sample in found.items():
            if sample is not None:
                self.series[name].append(sample)
        self.disk.append(disk_of(self._model_dir, time.monotonic() - self._began))
        if calls * _SHOWN // self._plan.calls >= self._shown:
            self._shown += 1
            sizes = ", ".join(f"{name} {sample.rss / 2**20:.1f} MiB" for name, sample in found.items() if sample)
            self._show(f"{calls} of {self._plan.calls} calls: {sizes}")


def refused_in(lines: Iterable[str]) -> int:
    return sum(REFUSED in line for line in lines)


def errors_of(plan: Plan, outcome: Outcome) -> list[str]:
    """Returns one line for each thing that the job did wrong."""
    if outcome.exit_code != 0:
        last = "\n  ".join(outcome.last_lines)
        return [f"the job ended with {outcome.exit_code}; its last lines:\n  {last}", *_left_errors(outcome)]
    examples = (plan.part + 1) * plan.calls * plan.workers * BATCH_SIZE
    expected = {"global_step": plan.max_steps} | ({} if plan.flags else {"examples": examples})
    wrong = [
        f"{name} is {outcome.result.get(name)} in place of {number}"
        for name, number in expected.items()
        if outcome.result.get(name) != number
    ]
    unseen = [f"{name} was never sampled" for name, samples in outcome.series.items() if not samples]
    return [*wrong, *unseen, *_left_errors(outcome)]


def _left_errors(outcome: Outcome) -> list[str]:
    return [f"still alive after the job: {command}" for command in outcome.left]


def _left_of(job: Process) -> list[str]:
    """Returns the command lines of the processes that have not ended soon after the job."""
    deadline = time.monotonic() + _END_SECS
    while (left := job.descendants()) and time.monotonic() < deadline:
        time.sleep(_POLL_SECS)
    return [command_of(pid) for pid in left]
