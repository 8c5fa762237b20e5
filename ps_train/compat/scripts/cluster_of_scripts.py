"""A script run as all tasks of a cluster on this machine.

    code = run(ScriptJob("train.py", ["--steps=100"], num_ps=1, num_workers=2), os.environ, console)

Each task is a child process with its own `TF_CONFIG` and classic flags.  The job is over when all workers have ended;
the ps are then ended.  The first failure ends all tasks and is reported as the cause.  Standard library only.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import queue
import re
import signal
import threading
import time
from collections.abc import Mapping, Sequence

from ps_train.base.console import Console
from ps_train.base.deprecations import ALL, NONE
from ps_train.base.deprecations import VARIABLE as DEPRECATIONS
from ps_train.base.errors import EXIT_DONE, EXIT_FAILED, exit_code_of_signal
from ps_train.base.tf_import import import_tensorflow
from ps_train.commands.launch import fork
from ps_train.commands.launch.child_process import describe_exit, start_process
from ps_train.commands.launch.fork import Process
from ps_train.commands.launch.output import TaskOutput, lines_of
from ps_train.commands.launch.port_reservation import PortReservation
from ps_train.compat.scripts.script_flags import defined_flags, script_texts, task_flags, tf_config
from ps_train.compat.scripts.script_process import run_forked_script

PS_GRACE_SECS = 5.0
"""Seconds that a ps has to end by itself after the last worker."""

GRACE_SECS = 10.0
"""Seconds from SIGTERM to SIGKILL."""

_POLL_SECS = 0.2
_LAST_LINES = 5

_ECHO = re.compile(r"got signal \d+[:;]|the job was stopped by a signal")
"""A warning of a task that the launcher ends."""


@dataclasses.dataclass(frozen=True)
class ScriptJob:
    """A script and the cluster that runs it.

    Attributes:
      script: path of the script.
      arguments: of every task.
      num_ps: the number of ps.
      num_workers: the number of workers, the chief included.
      has_chief: whether the first worker is a job `chief` of its own.
      has_evaluator: whether there is an evaluator besides.
      compat: whether the script gets the facade of TensorFlow 1's modules.
      verbose: whether every task shows TensorFlow's warnings of deprecated names, not the first one alone.
    """

    script: str
    arguments: Sequence[str]
    num_ps: int = 1
    num_workers: int = 2
    has_chief: bool = False
    has_evaluator: bool = False
    compat: bool = False
    verbose: bool = False

    def job_sizes(self) -> dict[str, int]:
        """Returns the number of tasks of each job of the cluster."""
        chiefs = 1 if self.has_chief else 0
        sizes = {"ps": self.num_ps, "chief": chiefs, "worker": self.num_workers - chiefs}
        return {name: size for name, size in sizes.items() if size}


@dataclasses.dataclass
class _Task:
    """A started task: its process and what it has printed."""

    name: str
    process: Process
    output: TaskOutput

    @property
    def is_ps(self) -> bool:
        return self.name.startswith("ps:")

    def send(self, signum: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signum)


def run(job: ScriptJob, environ: Mapping[str, str], console: Console) -> int:
    """Runs the script as all tasks; returns 0, or the exit code of the first failure.

    Args:
      job: the script and its cluster.
      environ: the environment of the tasks.
      console: receives their output, each line after the name of its task.

    Raises:
      ConfigError: the script cannot be read.
    """
    return _ClusterRun(job, console).run(environ)


class _ClusterRun:
    def __init__(self, job: ScriptJob, console: Console) -> None:
        self._job, self._console = job, console
        self._texts = script_texts(job.script)
        self._events: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()
        self._tasks: dict[str, _Task] = {}
        self._failed: _Task | None = None
        self._signal: int | None = None
        self._deadline: float | None = None
        self._is_ending = False

    def run(self, environ: Mapping[str, str]) -> int:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, lambda got, frame: self._events.put(("", got)))
        if fork.can_fork():
            os.environ.update(environ)  # TensorFlow reads some variables once, at its import
            import_tensorflow(verbose=False)  # once for all tasks
        try:
            self._start_all(environ)
            self._watch()
        finally:
            for task in self._tasks.values():
                task.send(signal.SIGKILL)
                task.process.wait()
        return self._report()

    def _start_all(self, environ: Mapping[str, str]) -> None:
        ports = PortReservation()
        cluster = {name: [ports.reserve() for _ in range(size)] for name, size in self._job.job_sizes().items()}
        holds = self._job.compat or any("ps_train" in text for text in self._texts)
        for job_name, addresses in cluster.items():
            for index, address in enumerate(addresses):
                with ports.sockets[address] as reserved:  # closed at once: the task may be fast
                    if not holds:  # a server of TensorFlow itself does not take over a reserved port
                        reserved.close()
                    self._start(cluster, job_name, index, environ, reserved.fileno() if holds else None)
        if self._job.has_evaluator:
            self._start(cluster, "evaluator", 0, environ, None)
        for task in self._tasks.values():  # last: a process with threads cannot be forked
            threading.Thread(target=self._read, args=[task], daemon=True).start()

    def _start(
        self, cluster: Mapping[str, list[str]], job_name: str, index: int, environ: Mapping[str, str], held: int | None
    ) -> None:
        environment = {**environ, "TF_CONFIG": tf_config(cluster, job_name, index)}
        name = f"{job_name}:{index}"
        if self._job.verbose:
            environment[DEPRECATIONS] = ALL
        elif name != ("chief:0" if self._job.has_chief else "worker:0"):
            environment.setdefault(DEPRECATIONS, NONE)
        script, compat, given = self._job.script, self._job.compat, self._job.arguments
        arguments = [*given, *task_flags(defined_flags(self._texts), given, cluster, job_name, index)]
        work = functools.partial(run_forked_script, script, arguments, compat)
        command = ["ps_train.run", *(["--compat"] if compat else []), script, *arguments]
        process = start_process(work, command, environment, held)
        self._tasks[name] = _Task(name, process, TaskOutput(_LAST_LINES))

    def _read(self, task: _Task) -> None:
        for is_error, line in lines_of(task.process):
            is_echo = self._failed is not None and is_error and _ECHO.search(line)
            if task.output.add(is_error, line) and not is_echo:
                show = self._console.error if is_error else self._console.line
                show(f"[{task.name}] {line}")
        task.process.wait()
        self._events.put((task.name, 0))

    def _watch(self) -> None:
        """Handles events until every task has ended."""
        running = set(self._tasks)
        while running:
            try:
                name, signum = self._events.get(timeout=_POLL_SECS)
            except queue.Empty:
                self._kill_when_due()
                continue
            if signum:
                self._forward(signum)
                continue
            running.discard(name)
            task = self._tasks[name]
            if self._is_ending:
                self._show_held_back(task)
                continue
            if task.process.wait() != EXIT_DONE:
                self._failed = task
                self._end_tasks(signal.SIGTERM, GRACE_SECS)
            elif all(other.startswith("ps:") for other in running):
                self._end_tasks(None, PS_GRACE_SECS)

    def _show_held_back(self, task: _Task) -> None:
        """Shows the error of a task, unless it repeats the cause for which the job ends."""
        cause = self._failed.output.error if self._failed is not None else ""
        if not cause or cause not in task.output.error:
            for line in task.output.held_back:
                self._console.error(f"[{task.name}] {line}")

    def _forward(self, signum: int) -> None:
        """Forwards the first signal; the second one kills."""
        if self._signal is not None:
            self._deadline = 0.0
            return
        self._signal = signum
        self._end_tasks(signal.SIGTERM if signum == signal.SIGHUP else signum, GRACE_SECS)

    def _end_tasks(self, signum: int | None, secs: float) -> None:
        self._is_ending = True
        self._deadline = time.monotonic() + secs
        if signum is not None:
            for task in self._tasks.values():
                task.send(signum)

    def _kill_when_due(self) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            for task in self._tasks.values():
                task.send(signal.SIGKILL)

    def _report(self) -> int:
        if self._signal is not None:
            return exit_code_of_signal(self._signal)
        if self._failed is None:
            return EXIT_DONE
        code = self._failed.process.wait()
        cause = self._failed.output.cause()
        self._console.error(f"ps_train: {self._failed.name} {describe_exit(code)}, and so the job failed: {cause}")
        return code if code > 0 else exit_code_of_signal(-code) if code else EXIT_FAILED


def current_environment() -> dict[str, str]:
    """Returns this process's environment, with TensorFlow's log for errors only unless it says otherwise."""
    return {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
