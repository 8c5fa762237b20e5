"""The supervision of child processes: their output, the first failure, grace, and the kill.

    class Pair(ChildSupervisor):
        def ended(self, child, code):            # a task has ended
            if code != EXIT_DONE:
                self.failed = child
                self.begin_shutdown(GRACE_SECS)

    pair = Pair(console, last_lines=5)
    pair.install_signals()
    pair.supervise(lambda: [pair.add("a:0", process_a), pair.add("b:0", process_b)])

It keeps the table of tasks and shows their output.  The first signal is forwarded, the second one kills.  After the
grace the remaining children are killed, and none is left when `supervise` returns or raises.  It does not know what
the end of a task means to the job: its user says so in `ended`.
"""

from __future__ import annotations

import abc
import queue
import signal
import threading
from collections.abc import Callable
from typing import Any

from ps_train.base.children import ChildProcess
from ps_train.base.console import Console
from ps_train.base.errors import exit_code_of_signal
from ps_train.commands.launch.child_process import Child
from ps_train.commands.launch.output import TaskOutput, lines_of

GRACE_SECS = 10.0
"""Seconds from a signal, or a child's failure, to SIGKILL for the remaining children."""

_POLL_SECS = 0.2
"""Maximum seconds of a wait: a signal delivered to another thread is handled only after the main thread's wait ends."""


class ChildSupervisor(abc.ABC):
    """Children of this process, and the loop that waits for their end.

    Args:
      console: receives their output.
      last_lines: number of lines of each task that are kept for a report.

    Attributes:
      children: the table of tasks, by name.
      running: names of the tasks that the loop waits for.
      failed: the first failure, which is the cause of the job's end.
      signals: the signals that came, in their order.
      is_shutting_down: True from the end of the job on.
    """

    def __init__(self, console: Console, last_lines: int) -> None:
        self.console, self._last_lines = console, last_lines
        self.children: dict[str, Child] = {}
        self.running: set[str] = set()
        self.failed: Child | None = None
        self.signals: list[int] = []
        self.is_shutting_down = False
        self._events: queue.SimpleQueue[tuple[Callable[[Any], None], Any]] = queue.SimpleQueue()

    @abc.abstractmethod
    def ended(self, child: Child, code: int) -> None:
        """Decides what the end of a task means, before the shutdown of the job."""

    @abc.abstractmethod
    def is_echo(self, line: str) -> bool:
        """Returns True for a warning of a task that repeats the job's failure or the signal of this process."""

    def prefix(self, name: str) -> str:
        """Returns the text before the lines of a task."""
        return f"[{name}] "

    def took(self, name: str, is_error: bool, line: str) -> bool:
        """Returns True if a line is not shown, because this method has handled it; called in a thread."""
        return False

    def install_signals(self) -> None:
        """Makes SIGINT, SIGTERM and SIGHUP events."""
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:  # nohup
                signal.signal(signum, lambda got, frame: self.post(self._forward_signal, got))

    def is_signalled(self) -> bool:
        """Returns True if a signal came before the tasks started."""
        return not self._events.empty()

    def exit_code_of_signal(self) -> int:
        """Returns the exit code for the signal that came before the tasks started."""
        return exit_code_of_signal(self._events.get()[1])

    def post(self, handler: Callable[[Any], None], value: Any) -> None:
        """Lets the loop call a handler; for any thread."""
        self._events.put((handler, value))

    def later(self, secs: float, handler: Callable[[Any], None], value: Any) -> None:
        """Lets the loop call a handler after some seconds."""
        timer = threading.Timer(secs, self.post, [handler, value])
        timer.daemon = True
        timer.start()

    def supervise(self, start_all: Callable[[], object]) -> None:
        """Returns when all tasks have ended that `start_all` has added to the table."""
        try:
            start_all()
            for child in self.children.values():
                child.reader.start()  # started last: a process with threads cannot be forked
            self.running = set(self.children)
            while self.running:
                self._handle_event()
        finally:
            self.kill_all()

    def add(self, name: str, process: ChildProcess) -> Child:
        """Adds a started task to the table; the caller starts the thread that reads its output."""
        output = TaskOutput(self._last_lines)
        reader = threading.Thread(target=self._read, args=(name, process, output), daemon=True)
        self.children[name] = Child(name, process, output, reader)
        return self.children[name]

    def begin_shutdown(self, secs: float) -> None:
        """Marks the job as over: `secs` later the remaining tasks are killed."""
        self.is_shutting_down = True
        for child in self.children.values():
            child.process.kill_after(secs)

    def send_all(self, signum: int) -> None:
        """Sends a signal to all tasks that run."""
        for child in self.children.values():
            child.process.send(signum)

    def kill_all(self) -> None:
        """Kills all tasks and waits for their end."""
        self.send_all(signal.SIGKILL)
        for child in self.children.values():
            child.process.wait()

    def show_held_back(self, child: Child) -> None:
        """Shows the error of a task, unless it repeats the cause for which the job ends."""
        cause = self.failed.output.error if self.failed is not None else ""
        if not cause or cause not in child.output.error:
            for line in child.output.held_back:
                self._show(child.name, True, line)

    def _read(self, name: str, process: ChildProcess, output: TaskOutput) -> None:
        for is_error, line in lines_of(process):
            if self.took(name, is_error, line):
                continue
            is_echo = self.failed is not None and is_error and self.is_echo(line)
            if output.add(is_error, line) and not is_echo:
                self._show(name, is_error, line)
        process.wait()  # here, not in the loop: a task may close its output long before it ends
        self.post(self._child_ended, name)

    def _show(self, name: str, is_error: bool, line: str) -> None:
        show = self.console.error if is_error else self.console.line
        show(self.prefix(name) + line)

    def _handle_event(self) -> None:
        try:
            handler, value = self._events.get(timeout=_POLL_SECS)
        except queue.Empty:
            for child in self.children.values():
                child.process.poll()  # which kills it at its deadline
            return
        handler(value)

    def _child_ended(self, name: str) -> None:
        child = self.children[name]
        code = child.process.wait()
        if self.is_shutting_down:
            self.running.discard(name)
            self.show_held_back(child)
        else:
            self.ended(child, code)

    def _forward_signal(self, signum: int) -> None:
        """Forwards the first signal to the children; kills them at the second one."""
        self.signals.append(signum)
        if len(self.signals) > 1:
            self.kill_all()
            return
        # a closed terminal (SIGHUP) must not prevent the last checkpoint
        self.send_all(signal.SIGTERM if signum == signal.SIGHUP else signum)
        self.begin_shutdown(GRACE_SECS)
