"""A child process of this one: it is asked to end, killed at a deadline, and reaped, in one way.

    child = start_child([sys.executable, "-m", "ps_train"], os.environ, stdout=subprocess.PIPE)
    child.stop(within_secs=10)          # SIGTERM; `poll` kills it 10 s later
    code = child.poll()                 # None while it runs; negative if a signal ended it

    with start_child(command) as child:
        ...                             # what is left of it is killed at the end of the body

A child has a session of its own: Ctrl-C and other signals of the terminal reach only this process, which ends its
children by their pid, or stops them.  Standard library only.
"""

from __future__ import annotations

import abc
import contextlib
import ctypes
import math
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from ps_train.base.errors import exit_code_of_signal, signal_name

_PR_SET_PDEATHSIG = 1  # sys/prctl.h


class ChildProcess(abc.ABC):
    """A child process, however it was started.  Safe to use from several threads.

    Attributes:
      pid: process id.
      stdout: its standard output, if that is a pipe.
      stderr: its standard error, if that is a pipe.
    """

    pid: int
    stdout: IO[Any] | None
    stderr: IO[Any] | None
    _kill_at = math.inf

    @abc.abstractmethod
    def exit_code(self) -> int | None:
        """Returns the exit code, or None while it runs; negative if a signal ended it."""

    @abc.abstractmethod
    def wait(self) -> int:
        """Waits for the end; returns the exit code."""

    @abc.abstractmethod
    def send_now(self, signum: int) -> None:
        """Sends a signal to a process that has not been seen to end."""

    def poll(self) -> int | None:
        """Returns the exit code, or None while it runs; negative if a signal ended it.  Kills it at its deadline."""
        code = self.exit_code()
        if code is None and time.monotonic() >= self._kill_at:
            self._kill_at = math.inf
            self.send_now(signal.SIGKILL)
        return code

    def send(self, signum: int) -> None:
        """Sends a signal, unless the process has ended."""
        if self.exit_code() is None:
            self.send_now(signum)

    def kill_after(self, secs: float) -> None:
        """Lets the process run on for some seconds; `poll` kills it then."""
        self._kill_at = time.monotonic() + secs

    def stop(self, within_secs: float) -> None:
        """Asks the process to end (SIGTERM); `poll` kills it if it does not in time."""
        self.kill_after(within_secs)
        self.send(signal.SIGTERM)

    def end(self) -> int:
        """Kills the process, and waits for its end; returns the exit code."""
        self.send(signal.SIGKILL)
        return self.wait()


class NewProcess(ChildProcess):
    """A child process that runs a program of its own.

    Args:
      process: as the standard library has started it.

    Attributes:
      stdin: its standard input, if that is a pipe.
    """

    def __init__(self, process: subprocess.Popen[Any]) -> None:
        self._process, self.pid = process, process.pid
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr

    def __enter__(self) -> NewProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def exit_code(self) -> int | None:
        """Returns the exit code, or None while it runs; negative if a signal ended it."""
        return self._process.poll()

    def send_now(self, signum: int) -> None:
        """Sends a signal."""
        self._process.send_signal(signum)

    def wait(self) -> int:
        """Waits for the end; returns the exit code."""
        return self._process.wait()

    def wait_for(self, secs: float) -> int | None:
        """Waits for the end for some seconds; returns the exit code, or None if it still runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(secs)
        return self.poll()

    def end(self) -> int:
        """Kills the process, and those that it has left in its session; returns its exit code."""
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        return self.wait()


def start_child(
    command: Sequence[str],
    environ: Mapping[str, str] | None = None,
    *,
    stdin: Any = subprocess.PIPE,
    stdout: Any = None,
    stderr: Any = None,
    inherited: Sequence[int] = (),
    **form: Any,
) -> NewProcess:
    """Starts a process.

    Args:
      command: the program and its arguments.
      environ: the environment; None for that of this process.
      stdin: as of `subprocess.Popen`; a pipe closes when this process ends in any way.
      stdout: as of `subprocess.Popen`.
      stderr: as of `subprocess.Popen`.
      inherited: file descriptors that stay open in the child.
      **form: further arguments of `subprocess.Popen`; without any the pipes are of bytes.

    Raises:
      OSError: the program cannot be started.
    """
    process = subprocess.Popen(
        list(command),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=None if environ is None else dict(environ),
        pass_fds=inherited,
        start_new_session=True,
        **form,
    )
    return NewProcess(process)


def start_text_child(
    command: Sequence[str],
    environ: Mapping[str, str] | None = None,
    *,
    stderr: Any = subprocess.PIPE,
    inherited: Sequence[int] = (),
) -> NewProcess:
    """Starts a process as `start_child` does, whose input and output are pipes of text; bad bytes are replaced."""
    pipe = subprocess.PIPE
    return start_child(command, environ, stdout=pipe, stderr=stderr, inherited=inherited, text=True, errors="replace")


def signal_at_parents_end(signum: int) -> None:
    """Makes the kernel send this process a signal when its parent ends (Linux)."""
    with contextlib.suppress(OSError, AttributeError):  # Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signum)


def shell_code(code: int) -> int:
    """Returns the code with which this process passes on the end of a child: 128 + n if signal n ended it."""
    return code if code >= 0 else exit_code_of_signal(-code)


def describe_exit(code: int) -> str:
    """Returns a description of an exit code for the console; a negative code is a signal."""
    if code < 0:
        return f"was ended by signal {-code} ({signal_name(-code)})"
    return f"failed with exit code {code}"
