"""The jobs of a row, in real processes: it is begun, struck where the row says so, and brought to its end.

run = run_row(row, processes)
run.steps, run.checkpoint, run.restarted_at
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
import signal
import time
from collections.abc import Callable

from ps_train.observe.progress.eval_events import EVAL_DIRECTORY, read_eval_metrics
from tests.support.machine.ports import free_ports
from tests.support.machine.processes import Process, Processes
from tests.trials.pairwise.factors import HOLD_STEP, RESUME_STEP, SAVE_STEPS, STEPS, Row

_START_SECS = 180.0
_END_SECS = 240.0
_ENDLESS = 100_000
"""max_steps of a job that something else ends."""

_LOOK_SECS = 2.2
"""The chief looks for evaluations every two seconds."""

_TOLD = {"kill_ps": "restored step", "kill_worker": "training continues at step"}
"""Words of the chief before the step at which it goes on after an event; otherwise `resumed from DIRECTORY at step`."""


class WrongEndError(Exception):
    """A process did not end, or not as it must."""


@dataclasses.dataclass(frozen=True)
class Run:
    """The end of a row's jobs.

    Attributes:
      steps: the global step in result.json.
      skipped: the number of pushes that were left out because they were not finite.
      checkpoint: path of the last checkpoint.
      held_at: the step at which the run was held before it was struck, None if it was not.
      saved: the step of the checkpoint that was there then.
      restarted_at: the step at which the run says that it went on after the event; None if there was none.
      early_stop: the last step that a single worker may make before --early_stop ends the run; None without it.
    """

    steps: int
    skipped: int
    checkpoint: str
    held_at: int | None = None
    saved: int | None = None
    restarted_at: int | None = None
    early_stop: int | None = None


class Job:
    """The tasks of one job, each a process.

    Args:
      row: the row.
      processes: starts and ends processes.
      directory: with `model` for the model.
      num_ps: the number of ps.
      max_steps: the step at which it ends.
      gate: directory of the gate's files; None without gates.
      holds: the steps at which it is held.

    Attributes:
      tasks: their names.
      running: task to its living process.
    """

    def __init__(
        self,
        row: Row,
        processes: Processes,
        directory: pathlib.Path,
        num_ps: int,
        max_steps: int,
        gate: pathlib.Path | None = None,
        holds: tuple[int, ...] = (),
    ) -> None:
        self._row, self._processes, self._gate = row, processes, gate
        self.model_dir = directory / "model"
        self.evaluations = str(self.model_dir / EVAL_DIRECTORY)
        addresses = [f"127.0.0.1:{port}" for port in free_ports(num_ps + row.num_workers)]
        hosts = {"ps": addresses[:num_ps], "worker": addresses[num_ps:]}
        if row.layout == "on_workers":
            del hosts["ps"]
        flags = ["--model=tests.trials.pairwise.model:Net", f"--max_steps={max_steps}", *row.flags()]
        flags += [f"--{name}_hosts={','.join(found)}" for name, found in hosts.items()]
        flags += ["--heartbeat_timeout_secs=3", f"--startup_timeout_secs={_START_SECS}"]
        if gate is not None:
            gate.mkdir()
            flags += [f"--model_arg=gate={gate}", f"--model_arg=holds={'+'.join(map(str, holds))}"]
        self._flags = flags
        self.tasks = [f"{name}:{index}" for name, found in hosts.items() for index in range(len(found))]
        self.running: dict[str, Process] = {}

    def start(self, *tasks: str) -> None:
        """Starts tasks; all of them without arguments."""
        for task in tasks or self.tasks:
            self.running[task] = self._processes.run(*self.flags_of(task))

    def flags_of(self, task: str) -> list[str]:
        """Returns the flags of a task."""
        job_name, _, index = task.partition(":")
        flags = [*self._flags, f"--job_name={job_name}"]
        flags += [f"--task_index={index}"] if index else []
        flags += [f"--model_dir={self.model_dir}"] if task in ("worker:0", "evaluator") else []
        flags += [f"--rack={'ab'[int(index) % 2]}"] if job_name == "worker" and self._row.layout == "racks" else []
        flags += ["--early_stop=same:1"] if "evaluator" in self.tasks and task == "worker:0" else []
        return flags

    def kill(self, *tasks: str) -> None:
        """Kills tasks."""
        for task in tasks:
            self.running.pop(task).send(signal.SIGKILL)

    def held(self, number: int) -> int:
        """Waits until the chief is held; returns the global step."""
        assert self._gate is not None
        self.wait_until(lambda: self.is_held(number), f"gate {number} holds the chief")
        return int((self._gate / f"held-{number}").read_text())

    def is_held(self, number: int) -> bool:
        """Returns whether the chief has come to a gate."""
        return self._gate is not None and (self._gate / f"held-{number}").exists()

    def is_ending(self) -> bool:
        """Returns whether a task has ended well."""
        return any(process.process.poll() == 0 for process in self.running.values())

    def open(self, number: int) -> None:
        """Lets the chief through a gate."""
        assert self._gate is not None
        (self._gate / f"open-{number}").touch()

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Waits for a condition.

        Raises:
          WrongEndError: a process has ended before, or the deadline has passed.
        """
        deadline = time.monotonic() + _START_SECS
        while not condition():
            ended = [task for task, process in self.running.items() if process.process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise WrongEndError(f"{', '.join(ended) or 'the deadline'} came before {what}\n{self.told()}")
            time.sleep(0.02)

    def end(self) -> None:
        """Waits until all tasks have ended.

        Raises:
          WrongEndError: one has not, or not with 0.
        """
        deadline = time.monotonic() + _END_SECS
        while any(process.process.poll() is None for process in self.running.values()):
            failed = [task for task, process in self.running.items() if process.process.poll()]
            if failed or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        wrong = {task: p.process.poll() for task, p in self.running.items() if p.process.poll() != 0}
        if wrong:
            raise WrongEndError(f"exit codes {wrong}\n{self.told()}")

    def told(self) -> str:
        """Returns the last lines of all tasks."""
        return "\n".join(f"--- {task}\n" + "\n".join(p.lines[-12:]) for task, p in self.running.items())


def run_row(row: Row, processes: Processes) -> Run:
    """Runs the jobs of a row to their end.

    Raises:
      WrongEndError: a process did not end as it must.
    """
    directory = processes.directory
    max_steps = STEPS if row.ending == "max_steps" else _ENDLESS
    event = Run(0, 0, "")
    if row.event in ("resume", "rescale"):
        first = Job(row, processes, directory, row.num_ps, RESUME_STEP)
        first.start()
        first.end()
    elif row.event == "kill_job":
        first = Job(row, processes, directory, row.num_ps, max_steps, directory / "first", (HOLD_STEP,))
        first.start()
        event = _wait_for_the_blow(first)
        first.kill(*first.running)
    if row.event.startswith("kill") and row.event != "kill_job":
        job = Job(row, processes, directory, row.num_ps, max_steps, directory / "gate", (HOLD_STEP,))
        job.start()
        event = _wait_for_the_blow(job)
        struck = "ps:0" if row.event == "kill_ps" else f"worker:{row.num_workers - 1}"
        job.kill(struck)
        job.start(struck)
        job.open(0)
    elif row.ending == "early_stop":
        begin = _newest(directory / "model") or 0
        holds = (begin + SAVE_STEPS, begin + 2 * SAVE_STEPS)
        job = Job(row, processes, directory, row.ps_after_event, max_steps, directory / "gate", holds)
        job.tasks.append("evaluator")
        job.start()
        event = dataclasses.replace(event, early_stop=_evaluate_twice(job, begin) + 2 * SAVE_STEPS)
    else:
        job = Job(row, processes, directory, row.ps_after_event, max_steps)
        job.start()
    job.end()
    result = json.loads((job.model_dir / "result.json").read_text())
    steps = int(result["global_step"])
    return dataclasses.replace(
        event,
        steps=steps,
        skipped=result["skipped"],
        checkpoint=str(job.model_dir / f"model.ckpt-{steps}"),
        restarted_at=_restarted_at(job, row.event) if row.event != "none" else None,
    )


def _wait_for_the_blow(job: Job) -> Run:
    """Waits until the run is held and has a checkpoint of some steps."""
    step = job.held(0)
    job.wait_until(lambda: (_newest(job.model_dir) or 0) >= step - step % SAVE_STEPS, "the checkpoint")
    return Run(0, 0, "", held_at=step, saved=_newest(job.model_dir))


def _evaluate_twice(job: Job, begin: int) -> int:
    """Holds the run for two evaluations, of which the second has no better metric; returns the global step then.

    begin: the global step at which the job begins.
    """
    job.held(0)
    job.wait_until(lambda: len(read_eval_metrics(job.evaluations)) >= 1, "the first evaluation")
    job.open(0)
    job.wait_until(lambda: job.is_held(1) or job.is_ending(), "the second gate or an early end")
    if not job.is_held(1):  # there were two evaluations already
        return begin + SAVE_STEPS
    held = time.monotonic()
    job.wait_until(lambda: len(read_eval_metrics(job.evaluations)) >= 2, "the second evaluation")
    job.wait_until(lambda: time.monotonic() > held + _LOOK_SECS, "the chief may look again")
    job.open(1)
    return job.held(1)


def _newest(directory: pathlib.Path) -> int | None:
    steps = [int(path.name.split("-")[1].split(".")[0]) for path in directory.glob("model.ckpt-*.index")]
    return max(steps, default=None)


def _restarted_at(job: Job, event: str) -> int | None:
    told = re.search(rf"{_TOLD.get(event, 'resumed from .* at step')} (\d+)", job.running["worker:0"].output)
    return int(told[1]) if told else None
