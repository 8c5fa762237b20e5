"""The other side of `ssh.py`: runs a task, and ends all its processes when the launcher or the connection dies.

    python -m ps_train.commands.launch.remote 30 --job_name=ps --task_index=0 ...

Standard input has a line with the name of each signal for the task, and an empty line every few seconds.  Its end, or
silence for the given seconds, ends the task's process group.  Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Sequence

from ps_train.base.children import NewProcess, shell_code, start_child
from ps_train.base.errors import EXIT_FAILED
from ps_train.commands.launch.child_process import child_environment
from ps_train.config.error_line import error_line
from ps_train.config.verbs import VERBS

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def run(command: Sequence[str], timeout_secs: float) -> int:
    """Runs a command until it ends or the launcher is gone; returns its exit code, 128 + n if signal n ended it.

    Args:
      command: the command of the task.
      timeout_secs: longest silence of the launcher.
    """
    wakeup, wakes = socket.socketpair()
    for end in (wakeup, wakes):
        end.setblocking(False)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    received: list[int] = []
    for signum in (*_ENDING, signal.SIGCHLD):
        signal.signal(signum, lambda got, frame: received.append(got))
    environ = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    with start_child(command, child_environment(environ, None)) as process:  # also ends what the task has left behind
        _watch(process, wakeup, received, timeout_secs)
    return shell_code(process.wait())


def _watch(process: NewProcess, wakeup: socket.socket, received: Sequence[int], timeout_secs: float) -> None:
    """Passes signals on until the task has ended, or must end."""
    begun, deadline = b"", time.monotonic() + timeout_secs
    while process.poll() is None and not set(received) & set(_ENDING):
        streams = [0, wakeup.fileno()]
        ready = select.select(streams, [], [], max(0.0, deadline - time.monotonic()))[0]
        if wakeup.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                wakeup.recv(1 << 10)
        elif 0 in ready:
            chunk = os.read(0, 1 << 10)
            if not chunk:
                return
            *lines, begun = (begun + chunk).split(b"\n")
            for line in filter(None, lines):
                with contextlib.suppress(KeyError):  # a signal of a later version
                    process.send(signal.Signals[line.decode(errors="replace")])
            deadline = time.monotonic() + timeout_secs
        elif time.monotonic() >= deadline:
            return


def main(arguments: Sequence[str]) -> int:
    """Runs the task; returns its exit code.

    Args:
      arguments: the longest silence in seconds, and the flags of the task.
    """
    try:
        return run([sys.executable, "-m", "ps_train", *arguments[1:]], float(arguments[0]))
    except OSError as error:
        print(error_line(error, VERBS["launch"].page), file=sys.stderr)
        return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
