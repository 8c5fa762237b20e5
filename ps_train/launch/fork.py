"""A child that is a copy of this process: what has been imported here it need not import.

    child = Forked(work, environment, kept=[port.fileno()])
    for line in child.stdout: …
    child.wait()

It has the part of `subprocess.Popen` that the launcher uses.  Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Protocol

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Process(Protocol):
    """What `subprocess.Popen` and `Forked` have in common."""

    pid: int
    returncode: int | None

    @property
    def stdout(self) -> IO[str] | None: ...

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...

    def send_signal(self, sig: int) -> None: ...


def can_fork() -> bool:
    """A thread of Python's would not be in the copy, but what it has locked would stay locked; other systems' libraries
    do not allow it at all."""
    return sys.platform == "linux" and threading.active_count() == 1


class ForkedProcess:
    """Its standard input is a pipe that closes when this process ends; standard output and error are another one.

    Args:
      work: what the child does; what it returns is its exit code.
      environment: the child's.
      kept: the file descriptors that the child keeps.
    """

    def __init__(self, work: Callable[[], int], environment: Mapping[str, str], kept: Sequence[int]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        read_end, self._stdin = os.pipe()
        output, write_end = os.pipe()
        # A signal that comes now must not be taken by this process's handlers within the child.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        self.pid = os.fork()
        if self.pid == 0:
            _child_main(work, environment, read_end, write_end, kept, before)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(read_end)
        os.close(write_end)
        self.stdout: IO[str] | None = os.fdopen(output, errors="replace")
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self) -> int:
        """From several threads at once, if need be."""
        while (code := self.poll()) is None:
            with contextlib.suppress(ChildProcessError):  # another thread was faster
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)


def _child_main(
    work: Callable[[], int],
    environment: Mapping[str, str],
    stdin: int,
    stdout: int,
    kept: Sequence[int],
    mask: set[int | signal.Signals],
) -> None:
    """The child's whole life."""
    code = 1
    try:
        os.setsid()  # Ctrl-C reaches the launcher alone, which passes it on
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stdout, 2)
        _close_all_but({0, 1, 2, *kept})
        os.environ.clear()
        os.environ.update(environment)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for signum in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        sys.stdout.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr]
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _close_all_but(kept: set[int]) -> None:
    """Above all, the ends of pipes and the ports that are others'."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with contextlib.suppress(OSError):  # the one that the list was read from
                os.close(int(name))
