"""The launcher of a job: it starts tasks as child processes, shows their output and reports the first failure.

    launcher = Launcher(console, RestartPolicy(3), Schedule(()), log_dir="")
    launcher.install_signals()
    code = launcher.run({"ps:0": start_ps, "worker:0": start_worker}, chief="worker:0")

It does not know how a task is started: on this machine (`local.py`) or by ssh (`ssh.py`).  If a child fails, it ends
all children and reports the first failure as the cause, or restarts the child as the policy says.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping

from ps_train.base.children import ChildProcess, describe_exit, shell_code
from ps_train.base.console import PROGRESS_BEGINS, WARNING_BEGINS, Console, human_secs, step_of
from ps_train.base.errors import EXIT_DONE, EXIT_FAILED, JobFailedError, exit_code_of_signal, with_page
from ps_train.base.event_file import EventFile
from ps_train.commands.launch.child_process import Child
from ps_train.commands.launch.restart_policy import RestartPolicy
from ps_train.commands.launch.supervisor import GRACE_SECS, ChildSupervisor
from ps_train.config.error_report import ErrorFile, is_reported
from ps_train.config.fault_spec import Schedule

_LAST_LINES = 200
_SHOWN_LINES = 5

StartTask = Callable[[int], ChildProcess]
"""Starts a task, given the number of its restarts so far."""


class Launcher(ChildSupervisor):
    """Runs the tasks of one job.

    Args:
      console: receives the output.
      restarts: decides on restarts.
      schedule: the faults on purpose.
      log_dir: directory of the files for errors; "" for none.
    """

    def __init__(self, console: Console, restarts: RestartPolicy, schedule: Schedule, log_dir: str) -> None:
        super().__init__(console, _LAST_LINES)
        self._restarts, self._schedule, self._log_dir = restarts, schedule, log_dir
        self.events_file = EventFile()
        self._starts: dict[str, StartTask] = {}
        self._chief = ""
        self._paused: set[str] = set()

    def run(self, starts: Mapping[str, StartTask], chief: str) -> int:
        """Runs the tasks until all have ended; returns the exit code of the job.

        Args:
          starts: how each task is started, by its name.
          chief: name of the task whose end is the end of the job; its output has no prefix.
        """
        self._starts, self._chief = dict(starts), chief
        try:
            self.supervise(lambda: [self.add(name, self._start(name)) for name in starts])
        finally:
            self.events_file.close()
        if self.signals:
            return exit_code_of_signal(self.signals[0])
        return self._report(self.failed) if self.failed is not None else EXIT_DONE

    def prefix(self, name: str) -> str:
        """Returns the text before the lines of a task; the chief has none."""
        return "" if name == self._chief else super().prefix(name)

    def is_echo(self, line: str) -> bool:
        """Returns True for a warning: a task that hears of the job's failure, or of its signal, warns of it."""
        return line.startswith(WARNING_BEGINS)

    def took(self, name: str, is_error: bool, line: str) -> bool:
        """Returns True for the chief's progress, which updates one line of the console."""
        if name != self._chief or is_error or not line.startswith(PROGRESS_BEGINS):
            return False
        self.console.progress(line)
        if self._schedule:
            self.post(self._inject_fault, step_of(line))
        return True

    def ended(self, child: Child, code: int) -> None:
        """Restarts a failed task if allowed; else its end, like that of the chief, ends the job."""
        if code != EXIT_DONE:
            self._write_error(child, code)
            if self._restarts_later(child, code):
                return
        self.running.discard(child.name)
        if code == EXIT_DONE and child.name != self._chief:
            self.show_held_back(child)
            return
        # The chief decides that the job is done; a worker that missed the outcome must not wait for more steps.
        self.failed = child if code != EXIT_DONE else None
        if self.failed is None:
            self.show_held_back(child)
        self.begin_shutdown(GRACE_SECS)
        self.later(GRACE_SECS / 2, self.send_all, signal.SIGTERM)  # to those that have not noticed the end by then

    def begin_shutdown(self, secs: float) -> None:
        """Marks the job as over: from now on no child is restarted."""
        super().begin_shutdown(secs)
        self.running -= self._paused

    def _start(self, name: str) -> ChildProcess:
        ErrorFile(self._log_dir, name).remove()
        return self._starts[name](self._restarts.restarts_made(name))

    def _write_error(self, child: Child, code: int) -> None:
        """Writes the error of a child that could not do so itself, because a signal ended it or it never ran."""
        cause = f"{describe_exit(code)}: {child.output.cause()}"
        ErrorFile(self._log_dir, child.name).write(f"{child.name} {cause}", "", shell_code(code))

    def _inject_fault(self, step: int) -> None:
        """Injects the faults of --inject_fault that are due at a step."""
        for fault in self._schedule.due(step):
            child = self.children[fault.task]
            line = f"{fault.text} strikes at step {step}"
            self.console.error(f"ps_train: {line}")
            self.events_file.add("fault", fault.task, line)
            child.process.send(signal.SIGKILL if fault.kind == "kill" else signal.SIGSTOP)
            if fault.amount:
                self.later(fault.amount, lambda child: child.process.send(signal.SIGCONT), child)

    def _restarts_later(self, child: Child, code: int) -> bool:
        """Schedules the restart of a failed child, if allowed; returns True if so.  Until then it counts as running."""
        delay = self._restarts.delay(child.name, code)
        if delay is None:
            return False
        times = f"{self._restarts.restarts_made(child.name)} of {self._restarts.max_restarts}"
        self.show_held_back(child)
        line = f"{child.name} {describe_exit(code)}; it will restart in {human_secs(delay)} (restart {times})"
        self.console.error(f"ps_train: {line}")
        self.events_file.add("lost", child.name, line)
        self._paused.add(child.name)
        self.later(delay, self._restart, child.name)
        return True

    def _restart(self, name: str) -> None:
        if not self.is_shutting_down:
            self._paused.discard(name)
            self.add(name, self._start(name)).reader.start()

    def _report(self, child: Child) -> int:
        code = child.process.wait()
        lines = list(child.output.lines)[-_SHOWN_LINES:]
        if lines and (child.output.error or len(lines) > 1):  # else the line below has the only one
            self.console.error(f"ps_train: the last lines of {child.name}:")
            for line in lines:
                self.console.error(f"  {line}")
        for line in child.output.frames():
            self.console.error(line)
        if not (child.output.error and is_reported()):  # else the fit that started this process raises it
            cause = child.output.cause()
            line = f"ps_train: {child.name} {describe_exit(code)}, and so the job failed: {cause}"
            self.console.error(with_page(line, child.output.page or JobFailedError.page))
        return code if code > 0 else EXIT_FAILED
