"""The job of a fit as a child process, whose output becomes this process's output.

    code = run_program(["--max_steps=100"], environ, quiet=False)

The child is a new process, because a process that uses TensorFlow must not be forked.  It has ended when `run_program`
returns or raises.  Standard library only.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any

from ps_train.base.children import NewProcess, start_child
from ps_train.commands.launch.output import Lines
from ps_train.commands.launch.progress_bar import ProgressBar
from ps_train.commands.launch.supervisor import GRACE_SECS

_POLL_SECS = 0.1
_STOP_SECS = GRACE_SECS + 5.0
"""Seconds from the first signal to SIGKILL: the launcher has ended its children by then."""


def run_program(
    arguments: Sequence[str], environ: Mapping[str, str], quiet: bool, bar: ProgressBar | None = None
) -> int:
    """Runs the program until it ends; returns its exit code, negative if a signal ended it.

    If this process is interrupted, the job stops with a checkpoint.  A second interrupt ends it at once.

    Args:
      arguments: the flags.
      environ: the environment of the child.
      quiet: if True, nothing is printed.
      bar: shows the progress in the place of lines; None for lines.
    """
    inherits = not quiet and sys.stdout is sys.__stdout__ and os.isatty(1)  # progress in place
    pipe = None if inherits else subprocess.DEVNULL if quiet else subprocess.PIPE
    sys.stdout.flush()
    command = [sys.executable, "-m", "ps_train", *arguments]
    process = start_child(command, environ, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    with _Interrupts() as interrupts, contextlib.closing(_Output(process, bar)) as output:
        try:
            output.forward(lambda: interrupts.count > 0)
            if interrupts.count:
                raise KeyboardInterrupt
        except BaseException:
            _stop(process, interrupts, output)
            raise
    return process.wait()


class _Interrupts:
    """A count of SIGINT within the body, where Python itself would raise KeyboardInterrupt.

    That exception is lost if the signal comes while Python collects garbage.  A handler of the user's own stays.
    """

    def __init__(self) -> None:
        self.count = 0
        self._is_ours = False

    def __enter__(self) -> _Interrupts:
        in_main_thread = threading.current_thread() is threading.main_thread()
        self._is_ours = in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._is_ours:
            signal.signal(signal.SIGINT, self._add)
        return self

    def _add(self, signum: int, frame: FrameType | None) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class _Output:
    """Forwards the output of a process; with a bar in lines, of which the bar shows some."""

    def __init__(self, process: NewProcess, bar: ProgressBar | None) -> None:
        self._process, self._bar = process, bar
        self._selector = selectors.DefaultSelector()
        for pipe, name in ((process.stdout, "stdout"), (process.stderr, "stderr")):
            if pipe is not None:
                take = codecs.getincrementaldecoder("utf-8")("replace").decode if bar is None else self._by_lines(bar)
                self._selector.register(pipe, selectors.EVENT_READ, (take, name))

    def _by_lines(self, bar: ProgressBar) -> Callable[[bytes], str]:
        lines = Lines()
        return lambda data: "".join(f"{line}\n" for line in lines.after(data) if not bar.take(line))

    def close(self) -> None:
        """Ends the bar."""
        self._selector.close()
        if self._bar is not None:
            self._bar.close()

    def forward(self, is_over: Callable[[], bool]) -> None:
        """Forwards output until the process has ended or `is_over` returns True."""
        while not is_over():
            has_ended = self._process.poll() is not None
            if not self._selector.get_map():
                self._process.wait_for(_POLL_SECS)
            ready = self._selector.select(0 if has_ended else _POLL_SECS) if self._selector.get_map() else []
            for key, _ in ready:
                self._forward(key.fileobj, *key.data)
            if has_ended and not ready:  # a process of the user's may still hold the pipe
                return

    def _forward(self, pipe: Any, take: Callable[[bytes], str], name: str) -> None:
        data = os.read(pipe.fileno(), 1 << 16)
        if not data:
            self._selector.unregister(pipe)
        stream = getattr(sys, name)
        with contextlib.suppress(OSError, ValueError):  # nobody reads it; the training goes on
            stream.write(take(data))
            stream.flush()


def _stop(process: NewProcess, interrupts: _Interrupts, output: _Output) -> None:
    """Stops the job with a checkpoint; a second interrupt ends it at once, and the deadline kills it."""
    process.kill_after(_STOP_SECS)
    for _ in range(2):
        known = interrupts.count
        with contextlib.suppress(KeyboardInterrupt):
            process.send(signal.SIGTERM)  # unlike SIGINT, silent even before there is a handler
            output.forward(lambda known=known: interrupts.count > known)  # type: ignore[misc]
            if interrupts.count == known:
                break
    if process.poll() is None:
        process.end()
