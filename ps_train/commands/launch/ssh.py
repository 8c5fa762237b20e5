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
from typing import IO

from ps_train.base.children import kill_group, start_text_child
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


class SshProcess:
    """A task on another host; it has the part of `subprocess.Popen` that the launcher uses.

    Args:
      command: of `Remote.command`.

    Raises:
      ConfigError: ssh cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self._process = start_text_child(command)
        except OSError as error:
            raise ConfigError(f"{command[0]} cannot be started ({error.strerror}): use another --ssh.") from None
        assert self._process.stdin is not None
        self._stdin: int | None = os.dup(self._process.stdin.fileno())
        self._process.stdin.close()
        os.set_blocking(self._stdin, False)  # a connection that hangs must not stop the launcher
        self._lock = threading.Lock()
        self.pid = self._process.pid
        self.returncode: int | None = None
        self._sign = LifeSign("ssh", functools.partial(self._write, b"\n"), _ALIVE_SECS)
        self._sign.start()

    @property
    def stdout(self) -> IO[str] | None:
        """The task's standard output."""
        return self._process.stdout

    @property
    def stderr(self) -> IO[str] | None:
        """The standard error of the task and of ssh."""
        return self._process.stderr

    def poll(self) -> int | None:
        """Returns the task's exit code, negative if it crashed by a signal, or None while it runs."""
        code = self._process.poll()
        self.returncode = 128 - code if code is not None and code - 128 in _CRASHES else code
        return self.returncode

    def wait(self) -> int:
        """Waits for the end of ssh; returns the task's exit code, or that of ssh, 255, if the connection failed."""
        self._process.wait()
        self._close()
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, sig: int) -> None:
        """Sends a signal to the task; SIGKILL ends all its processes and the connection."""
        if sig == signal.SIGKILL:
            self._close()
            timer = threading.Timer(_KILL_SECS, kill_group, [self.pid])  # also what ssh has started: a ProxyCommand
            timer.daemon = True
            timer.start()
        else:
            self._write(signal.Signals(sig).name.encode() + b"\n")

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
