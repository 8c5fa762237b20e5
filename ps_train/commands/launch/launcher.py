"""The launcher of a job: it starts tasks as child processes, shows their output and reports the first failure.

    launcher = Launcher(console, RestartPolicy(3), Schedule(()), log_dir="")
    launcher.install_signals()
    code = launcher.run({"ps:0": start_ps, "worker:0": start_worker}, chief="worker:0")

It does not know how a task is started: on this machine (`local.py`) or by ssh (`ssh.py`).  If a child fails, it ends
all children and reports the first failure as the cause, or restarts the child as the policy says.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ps_train.base.console import PROGRESS_BEGINS, WARNING_BEGINS, Console, step_of
from ps_train.base.errors import EXIT_DONE, EXIT_FAILED, exit_code_of_signal
from ps_train.base.event_file import EventFile
from ps_train.commands.launch.child_process import Child, describe_exit
from ps_train.commands.launch.fork import Process
from ps_train.commands.launch.output import TaskOutput, lines_of
from ps_train.commands.launch.restart_policy import RestartPolicy
from ps_train.config.error_report import ErrorFile, is_reported
from ps_train.config.fault_spec import Schedule

GRACE_SECS = 10.0
"""Seconds from a signal, or a child's failure, to SIGKILL for the remaining children."""

_LAST_LINES = 200
_SHOWN_LINES = 5

_POLL_SECS = 0.5
"""Maximum seconds of a wait: a signal delivered to another thread is handled only after the main thread's wait ends."""

StartTask = Callable[[int], Process]
"""Starts a task, given the number of its restarts so far."""


class Launcher:
    """Runs the tasks of one job.

    Args:
      console: receives the output.
      restarts: decides on restarts.
      schedule: the faults on purpose.
      log_dir: directory of the files for errors; "" for none.
    """

    def __init__(self, console: Console, restarts: RestartPolicy, schedule: Schedule, log_dir: str) -> None:
        self._console, self._restarts, self._schedule, self._log_dir = console, restarts, schedule, log_dir
        self.events_file = EventFile()
        self._children: list[Child] = []
        self._starts: dict[str, StartTask] = {}
        self._chief = ""
        self._events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._signals: list[int] = []
        self._running: set[str] = set()
        self._paused: set[str] = set()
        self._is_shutting_down = False
        self._failed: Child | None = None
        self._deadline: float | None = None

    def install_signals(self) -> None:
        """Makes SIGINT, SIGTERM and SIGHUP events."""
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, lambda got, frame: self._events.put(("signal", got)))

    def is_signalled(self) -> bool:
        """Returns True if a signal came before the tasks started."""
        return not self._events.empty()

    def exit_code_of_signal(self) -> int:
        """Returns the exit code for the signal that came before the tasks started."""
        return exit_code_of_signal(self._events.get()[1])

    def run(self, starts: Mapping[str, StartTask], chief: str) -> int:
        """Runs the tasks until all have ended; returns the exit code of the job.

        Args:
          starts: how each task is started, by its name.
          chief: name of the task whose end is the end of the job; its output has no prefix.
        """
        self._starts, self._chief = dict(starts), chief
        try:
            for child in [self._start(name) for name in self._starts]:
                child.reader.start()  # started last: a process with threads cannot be forked
            return self._watch()
        finally:
            self._kill_all()
            self.events_file.close()

    def _start(self, name: str) -> Child:
        """Starts a child; the caller starts the thread that reads its output."""
        ErrorFile(self._log_dir, name).remove()
        process = self._starts[name](self._restarts.restarts_made(name))
        output = TaskOutput(_LAST_LINES)
        self._children = [child for child in self._children if child.name != name]
        is_chief = name == self._chief
        reader = threading.Thread(target=self._read, args=(name, process, output, is_chief), daemon=True)
        self._children.append(Child(name, is_chief, process, output, reader))
        return self._children[-1]

    def _read(self, name: str, process: Process, output: TaskOutput, is_chief: bool) -> None:
        for is_error, line in lines_of(process):
            if is_chief and not is_error and line.startswith(PROGRESS_BEGINS):
                self._console.progress(line)
                if self._schedule:
                    self._events.put(("step", step_of(line)))
                continue
            # A task that hears of the job's failure warns of it, and of the signal by which the launcher ends it.
            is_echo = self._failed is not None and is_error and line.startswith(WARNING_BEGINS)
            if output.add(is_error, line) and not is_echo:
                self._show(name, is_chief, is_error, line)
        self._events.put(("exit", name))
        process.wait()

    def _show(self, name: str, is_chief: bool, is_error: bool, line: str) -> None:
        show = self._console.error if is_error else self._console.line
        show(line if is_chief else f"[{name}] {line}")

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
        if not self._is_shutting_down and code != EXIT_DONE:
            self._write_error(child, code)
            if self._restarts_later(child, code):
                return
        self._running.discard(name)
        if self._is_shutting_down or (code == EXIT_DONE and not child.is_chief):
            self._show_held_back(child)
            return
        # The chief decides that the job is done; a worker that missed the outcome must not wait for more steps.
        self._failed = child if code != EXIT_DONE else None
        if self._failed is None:
            self._show_held_back(child)
        self._begin_shutdown(GRACE_SECS)
        self._terminate_soon()

    def _show_held_back(self, child: Child) -> None:
        """Shows the error of a task, unless it repeats the cause for which the job ends."""
        cause = self._failed.output.error if self._failed is not None else ""
        if not cause or cause not in child.output.error:
            for line in child.output.held_back:
                self._show(child.name, child.is_chief, True, line)

    def _write_error(self, child: Child, code: int) -> None:
        """Writes the error of a child that could not do so itself, because a signal ended it or it never ran."""
        cause = f"{describe_exit(code)}: {child.output.cause()}"
        exit_code = code if code > 0 else exit_code_of_signal(-code)
        ErrorFile(self._log_dir, child.name).write(f"{child.name} {cause}", "", exit_code)

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
        self._show_held_back(child)
        line = f"{child.name} {describe_exit(code)}; it will restart in {delay:g}s (restart {times})"
        self._console.error(f"ps_train: {line}")
        self.events_file.add("lost", child.name, line)
        self._paused.add(child.name)
        self._later(delay, "restart", child.name)
        return True

    def _restart(self, name: str) -> None:
        if not self._is_shutting_down:
            self._paused.discard(name)
            self._start(name).reader.start()

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
        lines = list(child.output.lines)[-_SHOWN_LINES:]
        if lines and (child.output.error or len(lines) > 1):  # else the line below has the only one
            self._console.error(f"ps_train: the last lines of {child.name}:")
            for line in lines:
                self._console.error(f"  {line}")
        for line in child.output.frames():
            self._console.error(line)
        if not (child.output.error and is_reported()):  # else the fit that started this process raises it
            cause = child.output.cause()
            self._console.error(f"ps_train: {child.name} {describe_exit(code)}, and so the job failed: {cause}")
        return code if code > 0 else EXIT_FAILED
