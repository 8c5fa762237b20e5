"""The launcher of a whole cluster on this machine: it starts the other roles as child processes and shows their output.

The launcher only imports TensorFlow for its children; it never uses it.  The children get reserved ports, and die with
the launcher.  If a child fails, the launcher ends all children and reports the first failure as the cause.  With
`--max_restarts=3` it restarts a failed child instead, on the same port, a bounded number of times.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ps_train.config.fault_spec import Schedule, parse
from ps_train.config.job import Job
from ps_train.errors import EXIT_DONE, EXIT_FAILED, ConfigError, exit_code_of_signal
from ps_train.launch import fork
from ps_train.launch.child_process import Child, ForkTarget, describe_exit, start_child
from ps_train.launch.event_file import EventFile
from ps_train.launch.fork import Process
from ps_train.launch.output import cause_in, lines_of
from ps_train.launch.port_reservation import PortReservation
from ps_train.launch.restart_policy import RestartPolicy
from ps_train.runtime.console import PROGRESS_BEGINS, Console, step_of

GRACE_SECS = 10.0
"""Seconds from a signal, or a child's failure, to SIGKILL for the remaining children."""

_LAST_LINES = 200
_SHOWN_LINES = 5

_POLL_SECS = 0.5
"""Maximum seconds of a wait: a signal delivered to another thread is handled only after the main thread's wait ends."""


def run(job: Job, arguments: Sequence[str], environ: Mapping[str, str], console: Console, template: ForkTarget) -> int:
    """Runs the job as child processes; returns its exit code.

    Args:
      job: the job.
      arguments: the user's flags, passed on to the children.
      environ: the environment of the children.
      console: receives the output.
      template: the common part of the children.
    """
    ports = PortReservation()
    faults = parse(job.inject_fault)
    restarts = RestartPolicy(job.max_restarts)
    launcher = _Launcher(console, ports, restarts, Schedule(faults), template)
    launcher.install_signals()
    code = launcher.prepare(environ)
    if code is not None:
        return code
    arguments = [*arguments, *(["--status_port=0"] if job.status_port is None else [])]
    job, arguments = _with_addresses(job, arguments, ports)
    arguments += [] if job.model_dir else [f"--model_dir={new_directory(job)}"]
    if (console.live or faults) and not any(a.startswith("--log_secs") for a in arguments):
        arguments.append("--log_secs=0.2" if faults else "--log_secs=0.5")
    tasks = [("ps", i, host) for i, host in enumerate(job.ps_hosts)]
    tasks += [("chief", i, host) for i, host in enumerate(job.chief_hosts)]
    tasks += [("worker", i, host) for i, host in enumerate(job.worker_hosts)]
    return launcher.run(tasks, arguments, {**environ, **launcher.events_file.environment()})


def _with_addresses(job: Job, arguments: list[str], ports: PortReservation) -> tuple[Job, list[str]]:
    """Returns the job and arguments with host lists: the given ones, or free ports of this machine."""
    if job.ps_hosts or job.worker_hosts:
        return job, arguments
    ps = tuple(ports.reserve() for _ in range(job.num_ps or 1))
    workers = tuple(ports.reserve() for _ in range(job.num_workers or 2))
    arguments = [a for a in arguments if not a.startswith(("--num_ps=", "--num_workers="))]
    arguments += [f"--ps_hosts={','.join(ps)}", f"--worker_hosts={','.join(workers)}"]
    return dataclasses.replace(job, ps_hosts=ps, worker_hosts=workers), arguments


def new_directory(job: Job) -> str:
    """Makes a directory for this job alone; two jobs may start in the same second."""
    name = job.model.rpartition(":")[2].lower()
    base = os.path.abspath(os.path.join("runs", f"{name}-{job.update}-{time.strftime('%Y%m%d-%H%M%S')}"))
    path, numbers = base, itertools.count(2)
    while True:
        try:
            os.makedirs(path)
            return path
        except FileExistsError:
            path = f"{base}-{next(numbers)}"
        except OSError as error:
            raise ConfigError(f"{path} cannot be created ({error.strerror}): use --model_dir.") from None


class _Launcher:
    def __init__(
        self,
        console: Console,
        ports: PortReservation,
        restarts: RestartPolicy,
        schedule: Schedule,
        template: ForkTarget,
    ) -> None:
        self._console, self._ports, self._restarts, self._schedule = console, ports, restarts, schedule
        self._template, self.events_file = template, EventFile()
        self._children: list[Child] = []
        self._starts: dict[str, Callable[[], Child]] = {}
        self._events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._signals: list[int] = []
        self._running: set[str] = set()
        self._paused: set[str] = set()
        self._is_shutting_down = False
        self._failed: Child | None = None
        self._deadline: float | None = None

    def install_signals(self) -> None:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, lambda got, frame: self._events.put(("signal", got)))

    def prepare(self, environ: Mapping[str, str]) -> int | None:
        """Imports the modules of all children and checks the model in a first child.

        Returns:
          None if the children may start; else the exit code, after the cause is shown.
        """
        if not fork.can_fork():
            return None
        self._template.prepare()
        if self._events.empty():
            check, is_cancelled = self._template.check, lambda: not self._events.empty()
            code, output, errors = fork.run_forked(check, dict(environ), is_cancelled)
            if code != EXIT_DONE and self._events.empty():
                for line in output.splitlines():
                    self._console.line(line)
                for line in errors.splitlines():
                    self._console.error(line)
                return code if code > 0 else EXIT_FAILED
        return None if self._events.empty() else exit_code_of_signal(self._events.get()[1])

    def run(self, tasks: list[tuple[str, int, str]], arguments: list[str], environ: Mapping[str, str]) -> int:
        for job_name, index, host in tasks:
            start = functools.partial(self._start, job_name, index, host, arguments, environ)
            self._starts[f"{job_name}:{index}"] = start
        try:
            for child in [start() for start in self._starts.values()]:
                child.reader.start()  # started last: a process with threads cannot be forked
            return self._watch()
        finally:
            self._kill_all()
            self.events_file.close()

    def _start(
        self, job_name: str, index: int, address: str, arguments: list[str], environ: Mapping[str, str]
    ) -> Child:
        """Starts a child; the caller starts the thread that reads its output."""
        name = f"{job_name}:{index}"
        if self._restarts.restarts_made(name):
            self._ports.reserve_again(address)
            arguments = [a for a in arguments if not a.startswith("--ignore_checkpoints")]  # its own are there by now
        own = [*arguments, f"--job_name={job_name}", f"--task_index={index}"]
        process = start_child(own, environ, self._ports.sockets.pop(address, None), self._template)
        lines: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
        self._children = [child for child in self._children if child.name != name]
        is_chief = name == ("chief:0" if "chief:0" in self._starts else "worker:0")
        reader = threading.Thread(target=self._read, args=(name, process, lines, is_chief), daemon=True)
        self._children.append(Child(name, is_chief, process, lines, reader))
        return self._children[-1]

    def _read(self, name: str, process: Process, lines: collections.deque[str], is_chief: bool) -> None:
        for is_error, line in lines_of(process):
            if is_chief and not is_error and line.startswith(PROGRESS_BEGINS):
                self._console.progress(line)
                if self._schedule:
                    self._events.put(("step", step_of(line)))
                continue
            lines.append(line)
            show = self._console.error if is_error else self._console.line
            show(line if is_chief else f"[{name}] {line}")
        self._events.put(("exit", name))
        process.wait()

    def _watch(self) -> int:
        """Handles events until every child has ended; returns the exit code of the job."""
        self._running = {child.name for child in self._children}
        handlers: dict[str, Callable[[Any], None]] = {
            "signal": self._forward_signal,
            "restart": self._restart,
            "exit": self._child_ended,
            "step": self._inject_fault,
            "wake": lambda child: child.send(signal.SIGCONT),
        }
        while self._running:
            try:
                kind, value = self._events.get(timeout=_POLL_SECS)
            except queue.Empty:
                if self._deadline is not None and time.monotonic() >= self._deadline:
                    self._kill_all()
                    self._deadline = None
                continue
            handlers[kind](value)
        if self._signals:
            return exit_code_of_signal(self._signals[0])
        return self._report(self._failed) if self._failed is not None else EXIT_DONE

    def _child_ended(self, name: str) -> None:
        child = next(child for child in self._children if child.name == name)
        code = child.process.wait()
        if not self._is_shutting_down and self._restarts_later(child, code):
            return
        self._running.discard(name)
        if self._is_shutting_down or (code == EXIT_DONE and not child.is_chief):
            return
        # The chief decides that the job is done; a worker that missed the outcome must not wait for more steps.
        self._failed = child if code != EXIT_DONE else None
        self._begin_shutdown(GRACE_SECS)
        self._terminate_soon()

    def _inject_fault(self, step: int) -> None:
        """Injects the faults of --inject_fault that are due at a step."""
        for fault in self._schedule.due(step):
            child = next(child for child in self._children if child.name == fault.task)
            line = f"{fault.text} strikes at step {step}"
            self._console.error(f"ps_train: {line}")
            self.events_file.add("fault", fault.task, line)
            child.send(signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
            if fault.amount:
                self._later(fault.amount, "wake", child)

    def _later(self, secs: float, kind: str, value: Any) -> None:
        timer = threading.Timer(secs, self._events.put, [(kind, value)])
        timer.daemon = True
        timer.start()

    def _begin_shutdown(self, secs: float) -> None:
        """Marks the job as over: from now on no child is restarted."""
        self._is_shutting_down = True
        self._running -= self._paused
        self._deadline = time.monotonic() + secs

    def _restarts_later(self, child: Child, code: int) -> bool:
        """Schedules the restart of a failed child, if allowed; returns True if so.  Until then it counts as running."""
        delay = self._restarts.delay(child.name, code)
        if delay is None:
            return False
        times = f"{self._restarts.restarts_made(child.name)} of {self._restarts.max_restarts}"
        line = f"{child.name} {describe_exit(code)}; it will restart in {delay:g}s (restart {times})"
        self._console.error(f"ps_train: {line}")
        self.events_file.add("lost", child.name, line)
        self._paused.add(child.name)
        self._later(delay, "restart", child.name)
        return True

    def _restart(self, name: str) -> None:
        if not self._is_shutting_down:
            self._paused.discard(name)
            self._starts[name]().reader.start()

    def _forward_signal(self, signum: int) -> None:
        """Forwards the first signal to the children; kills them at the second one."""
        self._signals.append(signum)
        if len(self._signals) > 1:
            self._kill_all()
            return
        for child in self._children:  # a closed terminal (SIGHUP) must not prevent the last checkpoint
            child.send(signal.SIGTERM if signum == signal.SIGHUP else signum)
        self._begin_shutdown(GRACE_SECS)

    def _terminate_soon(self) -> None:
        """Sends SIGTERM to the children after a moment, if they have not noticed the end of the job by then."""

        def terminate() -> None:
            for child in self._children:
                child.send(signal.SIGTERM)

        timer = threading.Timer(GRACE_SECS / 2, terminate)
        timer.daemon = True
        timer.start()

    def _kill_all(self) -> None:
        for child in self._children:
            child.send(signal.SIGKILL)
        for child in self._children:
            child.process.wait()

    def _report(self, child: Child) -> int:
        code = child.process.wait()
        lines = [line for line in child.lines if line.strip()] or ["it printed nothing"]
        if len(lines) > 1:
            self._console.error(f"ps_train: the last lines of {child.name}:")
            for line in lines[-_SHOWN_LINES:]:
                self._console.error(f"  {line}")
        self._console.error(f"ps_train: {child.name} {describe_exit(code)}, and so the job failed: {cause_in(lines)}")
        return code if code > 0 else EXIT_FAILED
