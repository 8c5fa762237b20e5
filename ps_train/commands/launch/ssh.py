"""A task on another host, as a process of the user's own `ssh`.

    remote = Remote(["ssh", "-o", "BatchMode=yes"], "python3", "/job", {"PYTHONPATH": "/job"}, timeout_secs=30)
    process = SshProcess(remote.command("b", ["--job_name=ps", ...]))

Without a terminal ssh passes no signals on, so they are lines on the standard input of `remote.py`.  The same pipe
tells that side that the launcher lives.  Standard library only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shlex
import signal
import threading
from collections.abc import Mapping, Sequence

from ps_train.base.children import ChildProcess, start_text_child
from ps_train.base.errors import ConfigError
from ps_train.base.life_sign import LifeSign

DEFAULT_SSH = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=10 -o ServerAliveCountMax=3"

_ALIVE_SECS = 3.0
"""Seconds between two signs of life."""

_KILL_SECS = 3.0
"""Seconds that the other side has to end its processes, before the connection is closed."""

_CRASHES = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)


@dataclasses.dataclass(frozen=True)
class Remote:
    """The way to run a task on another host.

    Attributes:
      ssh: the command that runs another command on a host.
      python: the Python interpreter there.
      directory: the working directory there.
      environ: environment variables that are set there.
      timeout_secs: seconds without a sign of life after which the task ends.
    """

    ssh: Sequence[str]
    python: str
    directory: str
    environ: Mapping[str, str]
    timeout_secs: float

    def command(self, host: str, arguments: Sequence[str]) -> list[str]:
        """Returns the command that runs a task with these flags on a host."""
        variables = [f"{name}={value}" for name, value in self.environ.items()]
        own = [
            "env",
            *variables,
            self.python,
            "-m",
            "ps_train.commands.launch.remote",
            f"{self.timeout_secs:g}",
            *arguments,
        ]
        return [*self.ssh, host, f"cd {shlex.quote(self.directory)} && exec {shlex.join(own)}"]


class SshProcess(ChildProcess):
    """A task on another host.

    A signal for it is a line.  SIGKILL ends all its processes and the connection.  Its exit code is that of ssh, 255,
    if the connection failed.

    Args:
      command: of `Remote.command`.

    Raises:
      ConfigError: ssh cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self._ssh = start_text_child(command)
        except OSError as error:
            raise ConfigError(f"{command[0]} cannot be started ({error.strerror}): use another --ssh.") from None
        assert self._ssh.stdin is not None
        self._stdin: int | None = os.dup(self._ssh.stdin.fileno())
        self._ssh.stdin.close()
        os.set_blocking(self._stdin, False)  # a connection that hangs must not stop the launcher
        self._lock = threading.Lock()
        self.pid, self.stdout, self.stderr = self._ssh.pid, self._ssh.stdout, self._ssh.stderr
        self._sign = LifeSign("ssh", functools.partial(self._write, b"\n"), _ALIVE_SECS)
        self._sign.start()

    def exit_code(self) -> int | None:
        """Returns the exit code, or None while it runs; negative if a signal ended it."""
        code = self._ssh.poll()
        return None if code is None else _code_of_task(code)

    def wait(self) -> int:
        """Waits for the end of ssh; returns the task's exit code."""
        code = self._ssh.wait()
        self._close()
        return _code_of_task(code)

    def send_now(self, signum: int) -> None:
        """Sends a signal."""
        if signum == signal.SIGKILL:
            self._close()
            timer = threading.Timer(_KILL_SECS, self._ssh.end)  # also what ssh has started: a ProxyCommand
            timer.daemon = True
            timer.start()
        else:
            self._write(signal.Signals(signum).name.encode() + b"\n")

    def _write(self, line: bytes) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._stdin is not None:
                os.write(self._stdin, line)

    def _close(self) -> None:
        self._sign.stop()
        with self._lock:
            if self._stdin is not None:
                os.close(self._stdin)
            self._stdin = None


def _code_of_task(code: int) -> int:
    """Returns the task's exit code, negative if it crashed by a signal, which a shell's code tells."""
    return 128 - code if code - 128 in _CRASHES else code
