"""A child process forked from this process: it need not import the modules that are imported here.

    child = ForkedProcess(work, environment, inherited=[port.fileno()])
    for is_error, line in lines_of(child): ...       # of ps_train/commands/launch/output.py
    child.wait()

Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence

from ps_train.base.children import ChildProcess

_POLL_SECS = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def can_fork() -> bool:
    """Returns True if this process may be forked: on Linux, without other Python threads.

    The fork would not contain another thread, but the locks held by it would stay locked.  The libraries of other
    systems do not allow forks.
    """
    return sys.platform == "linux" and threading.active_count() == 1


class ForkedProcess(ChildProcess):
    """A forked child process.

    Its standard input is a pipe that closes when this process ends.  Standard output and error are two other pipes.

    Args:
      work: runs the child; returns its exit code.
      environment: the child's environment.
      inherited: the file descriptors that stay open in the child.

    Attributes:
      stdin: the file descriptor whose closing the child sees as the end of its input.
    """

    def __init__(self, work: Callable[[], int], environment: Mapping[str, str], inherited: Sequence[int]) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        read_end, self.stdin = os.pipe()
        output, output_end = os.pipe()
        errors, errors_end = os.pipe()
        # The child must not handle a signal with this process's handlers.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        self.pid = os.fork()
        if self.pid == 0:
            _child_main(work, environment, (read_end, output_end, errors_end), inherited, mask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for end in (read_end, output_end, errors_end):
            os.close(end)
        self.stdout = os.fdopen(output, errors="replace")
        self.stderr = os.fdopen(errors, errors="replace")
        self._exit_code: int | None = None
        self._lock = threading.Lock()

    def exit_code(self) -> int | None:
        """Returns the exit code, or None while it runs; negative if a signal ended it."""
        with self._lock:
            if self._exit_code is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self._exit_code = os.waitstatus_to_exitcode(status)
            return self._exit_code

    def wait(self) -> int:
        """Waits for the end of the child; returns its exit code.  Several threads may wait."""
        while (code := self.exit_code()) is None:
            with contextlib.suppress(ChildProcessError):  # another thread was faster
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        return code

    def send_now(self, signum: int) -> None:
        """Sends a signal."""
        os.kill(self.pid, signum)


def run_forked(
    work: Callable[[], int], environment: Mapping[str, str], is_cancelled: Callable[[], bool]
) -> tuple[int, str, str]:
    """Runs a function in a fork; returns its exit code, its standard output and its standard error.

    Args:
      work: the function; returns the exit code.
      environment: the child's environment.
      is_cancelled: returns True when the child shall be killed.
    """
    child = ForkedProcess(work, environment, inherited=[])
    assert child.stdout is not None and child.stderr is not None
    streams = [child.stdout, child.stderr]
    texts, open_streams = {stream: bytearray() for stream in streams}, list(streams)
    while open_streams:
        if is_cancelled():
            child.send(signal.SIGKILL)
        for stream in select.select(open_streams, [], [], _POLL_SECS)[0]:
            read = os.read(stream.fileno(), 1 << 16)
            texts[stream] += read
            if not read:
                open_streams.remove(stream)
                stream.close()
    code = child.wait()
    os.close(child.stdin)
    output, errors = (texts[stream].decode(errors="replace") for stream in streams)
    return code, output, errors


def _child_main(
    work: Callable[[], int],
    environment: Mapping[str, str],
    streams: tuple[int, int, int],
    inherited: Sequence[int],
    mask: set[int | signal.Signals],
) -> None:
    """Runs the child from its fork to its exit; `streams` become its standard input, output and error."""
    code = 1
    try:
        os.setsid()  # Ctrl-C reaches only the launcher, which forwards it
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        _close_all_but({0, 1, 2, *inherited})
        os.environ.clear()
        os.environ.update(environment)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for signum in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for file in (sys.stdout, sys.stderr):
            file.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr]
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _close_all_but(inherited: set[int]) -> None:
    """Closes all other file descriptors, above all the pipes and ports of other children."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in inherited:
            with contextlib.suppress(OSError):  # the descriptor of the listing itself
                os.close(int(name))
