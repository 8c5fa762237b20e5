"""Lets a storm loose on a job, and looks at how it ends.

weather(Storm.of(seed=7), processes, logs=pathlib.Path("/tmp/storm-7"))
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import signal
import threading
import time

from tests.support.machine.fork_server import DUMP_SIGNAL
from tests.support.machine.proc import stat_of
from tests.support.machine.processes import Process, Processes, eventually
from tests.trials.storms.excess import Loss, excess, losses_in
from tests.trials.storms.job import StormJob
from tests.trials.storms.storm import NEVER, Blow, Kind, Storm
from tests.trials.storms.verdict import (
    Plan,
    Promise,
    check_failure,
    check_orphans,
    check_processes,
    check_values,
    is_late,
    told,
)

STEP_SECS, DEADLINE_SECS = 600, 600
"""Seconds until a step is reached, and until the end after the last blow: what takes longer hangs."""

UNHEARD = 40
"""Updates of another worker that the chief had not heard of when ps 0 was lost: a burst of the chief takes 0.2 s, and a
step at least 5 ms."""


class Run:
    """The processes of a storm's job; of each task the present one."""

    def __init__(self, storm: Storm, processes: Processes) -> None:
        self.storm, self._processes = storm, processes
        self.job = StormJob(storm, processes.directory)
        self._lock = threading.Lock()
        self.now: dict[str, Process] = {}
        self.started: dict[str, list[Process]] = {}
        self.replaced: list[Process] = []
        self.away: set[str] = set()
        for task in self.job.tasks:
            self.start(task)

    def start(self, task: str, elsewhere: bool = False) -> None:
        """Starts a task, or starts it again."""
        with self._lock:
            self.job.place(task, elsewhere)
            flags = self.job.flags(task)
        process = self._processes.run(*flags)
        self.now[task] = process
        self.started.setdefault(task, []).append(process)
        self.away.discard(task)

    def is_over(self) -> bool:
        """Whether the chief has ended by itself."""
        return "worker:0" not in self.away and self.now["worker:0"].process.poll() is not None

    def step(self) -> float:
        """The last that the present chief has shown; beyond all where the job is over."""
        if self.is_over():
            return NEVER
        shown = self.shown()
        return shown[-1] if shown else 0

    def shown(self) -> list[int]:
        """The steps that the present chief has shown."""
        return [int(step) for step in re.findall(r"^step (\d+)/", self.now["worker:0"].output, re.MULTILINE)]

    def strike(self, blow: Blow) -> None:
        """Does what is to happen, and undoes it."""
        time.sleep(blow.after)
        if blow.kind == Kind.JOIN:
            self.start(blow.task)
            return
        victim = self.now.get(blow.task)
        if victim is None or victim.process.poll() is not None or self.is_over():
            return
        if blow.kind == Kind.LEAVE:
            self._await_begun(blow.task, victim)
            victim.send(signal.SIGTERM)
            return
        self.away |= {blow.task}
        victim.send(signal.SIGKILL if blow.kind == Kind.KILL else signal.SIGSTOP)
        if blow.secs == NEVER:
            return
        time.sleep(blow.secs)
        self._heal(blow, victim)

    def _await_begun(self, task: str, worker: Process) -> None:
        def is_so() -> bool:
            return _trains(worker) or worker.process.poll() is not None or self.is_over()

        eventually(is_so, STEP_SECS, f"{task} in {self.storm.text()}")

    def _heal(self, blow: Blow, victim: Process) -> None:
        if blow.kind == Kind.STOP:
            victim.send(signal.SIGCONT)
            self.away.discard(blow.task)
            return
        if blow.kind == Kind.REPLACE:
            self.replaced.append(victim)
            self.start(blow.task, elsewhere=True)
            if blow.wakes != NEVER:
                time.sleep(blow.wakes)
                victim.send(signal.SIGCONT)
            return
        if blow.kind == Kind.STOP_KILL:
            victim.send(signal.SIGKILL)
        victim.wait(10)
        self.start(blow.task, blow.elsewhere)

    def all_stop(self, killed: set[str]) -> None:
        """The whole job was stopped by a signal; it is started again."""
        for task, process in self.now.items():
            code = process.wait(90)
            is_killed = task in killed and code == -signal.SIGKILL
            assert code in (143, 0) or is_killed or is_late(process), told(f"{task} after SIGTERM: {code}", self.now)
        if (self.job.model_dir / "result.json").exists():  # it was over at that moment
            self.now = {task: process for task, process in self.now.items() if task not in killed}
        else:
            self.now = {}  # who had joined does not come back
            for task in self.job.tasks:
                self.start(task)

    def losses(self) -> list[Loss]:
        return [loss for chief in self.started["worker:0"] for loss in losses_in(chief.output)]

    def promise(self, step: int) -> Promise:
        """What the values must be, by what was struck and what the chiefs have said."""
        storm = self.storm
        workers = storm.num_workers + storm.joiners
        found = dataclasses.replace(self._promise(step), row_rate=storm.row_rate)
        if not storm.has_lone_rows:
            return found
        # Each blow, and the end, may find a round of each worker of which the ps have the rows alone.
        abandoned = (len(storm.blows) + 1) * workers * storm.round_steps
        times = workers if storm.update == "sync" else 1
        return dataclasses.replace(found, lone=(times, abandoned))

    def _promise(self, step: int) -> Promise:
        storm = self.storm
        workers = storm.num_workers + storm.joiners
        struck = [blow for blow in storm.blows if blow.strikes]
        is_ps = storm.layout == "ps on workers"
        pushes = sum(1 if blow.task.startswith("worker") and not is_ps else workers for blow in struck)
        pushes *= storm.round_steps
        is_rough = "top_k" in storm.options.get("push_codec", "")
        slack = 2.0 * storm.round_steps * workers * len(storm.blows) if is_rough else 0.0
        if storm.averages:
            return Promise(step, slack=slack, averages=True)
        if storm.num_ps == 1 or storm.update == "sync":
            return Promise(step, slack=slack, uses=storm.dynamic)
        if storm.dynamic or storm.update == "bounded":
            return Promise(step, pushes=pushes, slack=slack, uses=storm.dynamic)
        sleeps = any(blow.task == "worker:0" and blow.kind in (Kind.STOP, Kind.STOP_KILL) for blow in struck)
        unheard = step if sleeps else (UNHEARD + storm.round_steps) * (workers - 1) + 20
        return Promise(step, excess(self.losses(), step, unheard), pushes, slack)

    def keep(self, logs: pathlib.Path) -> None:
        """Writes the output of each process into a directory; those that live tell where each thread is."""
        for processes in self.started.values():
            for process in processes:
                if process.process.poll() is None:
                    process.send(DUMP_SIGNAL)
        time.sleep(2.0)
        logs.mkdir(parents=True, exist_ok=True)
        (logs / "storm.txt").write_text(self.storm.text() + "\n")
        for task, processes in self.started.items():
            for number, process in enumerate(processes):
                name = f"{task.replace(':', '_')}.{number}.log"
                (logs / name).write_text(f"{process.output}\nexit code: {process.process.poll()}\n")


def weather(storm: Storm, processes: Processes, logs: pathlib.Path | None = None) -> None:
    """Raises an assertion where the job does not end right.

    Args:
      logs: a directory that gets the output of all processes then.
    """
    run = Run(storm, processes)
    try:
        _blow(run)
        _check(run, processes)
    except BaseException:
        if logs is not None:
            run.keep(logs)
        raise


def _blow(run: Run) -> None:
    running: list[tuple[str, threading.Thread]] = []
    failed: list[BaseException] = []

    def strike(blow: Blow) -> None:
        try:
            run.strike(blow)
        except BaseException as error:
            failed.append(error)

    def join() -> None:
        for _, thread in running:
            thread.join(STEP_SECS + 60)
        assert not failed, failed

    for step, blows in run.storm.moments():
        told = f"step {step} of {run.storm.text()}"
        eventually(lambda step=step: run.step() >= step, STEP_SECS, told)
        stops = any(blow.kind == Kind.TERM for blow in blows)
        struck = {task for task, thread in running if thread.is_alive()}
        if stops or any(blow.task in struck for blow in blows):
            join()  # a second blow may hit while the first is not healed, or comes later, but not the same task
            eventually(lambda step=step: run.step() >= step, STEP_SECS, told)
        if stops:
            _await_taking_part(run, next(blow.task for blow in blows if blow.kind == Kind.TERM))
            _stop(run, blows)
            continue
        new = [(blow.task, threading.Thread(target=strike, args=(blow,))) for blow in blows]
        for _, thread in new:
            thread.start()
        running += new
    join()


def _trains(worker: Process) -> bool:
    """Whether a worker has begun its part.  Before, a signal ends the process and says nothing to the job."""
    return "training from global step" in worker.output


def _await_taking_part(run: Run, task: str) -> None:
    """Waits until a task takes part, and the job trains with the ps that it has now; or until it is over."""
    before, process = len(run.shown()), run.now[task]

    def takes_part() -> bool:
        is_worker = task.startswith("worker") and task != "worker:0"
        return len(run.shown()) > before + 1 and (not is_worker or _trains(process))

    eventually(lambda: run.is_over() or takes_part(), STEP_SECS, f"{task} in {run.storm.text()}")


def _stop(run: Run, blows: list[Blow]) -> None:
    """What is killed in the moment of a stop is not started before the whole job is."""
    if run.is_over():
        return
    for blow in blows:
        victim = run.now[blow.task]
        if victim.process.poll() is None:
            victim.send(signal.SIGTERM if blow.kind == Kind.TERM else signal.SIGKILL)
    run.all_stop({blow.task for blow in blows if blow.kind == Kind.KILL})


def _check(run: Run, processes: Processes) -> None:
    storm, text = run.storm, run.storm.text()
    expected = {task: process for task, process in run.now.items() if task not in storm.missing}
    expected_to_end = [*expected.values(), *[p for p in run.replaced if not _is_frozen(p)]]
    eventually(lambda: all(p.process.poll() is not None for p in expected_to_end), DEADLINE_SECS, f"the end of {text}")
    if storm.causes:
        check_failure(text, expected, storm.causes)
    else:
        stopped = {blow.task for blow in storm.blows if blow.kind in (Kind.TERM, Kind.LEAVE)}
        step = check_processes(text, expected, run.job.model_dir, stopped)
        assert storm.steps in (None, step), f"ended at step {step}\n{told(text, expected)}"
        plan = Plan("\n".join(chief.output for chief in run.started["worker:0"]))
        check_values(told(text, expected), run.job.model_dir, plan, run.promise(step))
    for process in run.replaced:
        # One that was frozen before it served finds the other one at its new address.
        was_busy = process.process.poll() == 2 and "is busy (held by" in process.lines[-1]
        saw_the_end = process.process.poll() == 0 and not storm.causes  # it woke before the job was over
        is_right = _is_frozen(process) or saw_the_end or is_late(process) or was_busy
        assert is_right, told(f"{text}: what was replaced", {"ps": process})
    for process in [*run.replaced, *[run.now[task] for task in storm.missing]]:
        process.kill()
    check_orphans(text, processes)


def _is_frozen(process: Process) -> bool:
    return process.process.poll() is None and stat_of(process.pid)[:1] == ["T"]
