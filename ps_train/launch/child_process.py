"""One task of a cluster on this machine, as a child process.

    process = started(["--job_name=ps", "--task_index=0", …], os.environ, held, template)

The first ones are copies of the launcher, which has imported TensorFlow once for all of them; one that is started again
later runs a command of its own.  Standard library only.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from ps_train.config.job import HELD_PORT_VARIABLE, WATCH_STDIN_VARIABLE
from ps_train.launch import fork
from ps_train.launch.fork import ForkedProcess, Process


@dataclasses.dataclass(frozen=True)
class ForkTarget:
    """What children that are copies have in common.

    Attributes:
      prepare: imports what all of them need.
      work: what each does with its arguments; returns its exit code.
    """

    prepare: Callable[[], None]
    work: Callable[[list[str]], int]


@dataclasses.dataclass
class Child:
    """One task of the job as a process; `lines` are the last that it printed."""

    name: str
    is_chief: bool
    process: Process
    lines: collections.deque[str]
    reader: threading.Thread

    def send(self, signum: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signum)


def start_child(
    arguments: Sequence[str], environ: Mapping[str, str], held: socket.socket | None, template: ForkTarget
) -> Process:
    """Its standard input is never written to: it closes when the launcher dies, however it dies.

    Args:
      held: the port at which it will serve; it is the child's from now on.
    """
    environment = {name: value for name, value in environ.items() if name != "TF_CONFIG"}
    environment |= {WATCH_STDIN_VARIABLE: "1", "PYTHONUNBUFFERED": "1"}
    kept = []
    if held is not None:
        environment[HELD_PORT_VARIABLE] = str(held.fileno())
        kept = [held.fileno()]
    if fork.can_fork():
        process: Process = ForkedProcess(functools.partial(template.work, list(arguments)), environment, kept)
    else:
        process = _spawn(arguments, environment, kept)
    if held is not None:
        held.close()
    return process


def _spawn(arguments: Sequence[str], environment: Mapping[str, str], kept: Sequence[int]) -> Process:
    return subprocess.Popen(
        [sys.executable, "-m", "ps_train", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        pass_fds=kept,
        start_new_session=True,  # Ctrl-C reaches the launcher alone, which passes it on
    )


def describe_exit(code: int) -> str:
    if code < 0:
        return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    return f"failed with exit code {code}"
