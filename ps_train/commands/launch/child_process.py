"""A task of a cluster on this machine, as a child process.

    process = start_child(["--job_name=ps", "--task_index=0", ...], os.environ, reserved, template)

The first processes are forks of the launcher, which has imported TensorFlow once for all of them.  A restarted task
runs its own command.  Standard library only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

from ps_train.base.children import ChildProcess, signal_at_parents_end, start_text_child
from ps_train.base.errors import EXIT_FAILED
from ps_train.commands.launch import fork
from ps_train.commands.launch.fork import ForkedProcess
from ps_train.commands.launch.output import TaskOutput
from ps_train.config.job import HELD_PORT_VARIABLE, WATCH_STDIN_VARIABLE

PARENT_VARIABLE = "PS_TRAIN_FIT_PARENT"
"""Environment variable: process id of the call of `fit`."""


def stop_with_parent() -> None:
    """Makes the end of the parent stop this job as SIGTERM does; does nothing in a process that no fit has started."""
    parent = int(os.environ.pop(PARENT_VARIABLE, 0))
    if not parent:
        return
    signal_at_parents_end(signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), signal.SIGTERM)


def die_with_launcher() -> bool:
    """Ends this process when the launcher ends: standard input is a pipe that closes at that moment.

    So `breakpoint()` cannot read from it, and raises an error, unless PYTHONBREAKPOINT names another debugger.

    Returns:
      Whether a launcher started this process.
    """
    if not os.environ.pop(WATCH_STDIN_VARIABLE, None):
        return False
    signal_at_parents_end(signal.SIGKILL)  # also ends a stopped process
    threading.Thread(target=_end_with_stdin, daemon=True, name="launcher watch").start()
    if "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = _refuse_breakpoint
    return True


def _refuse_breakpoint(*arguments: object, **named: object) -> None:
    raise RuntimeError(
        "breakpoint() has no terminal in a process that the launcher started: start each task in a terminal of its own"
    )


def _end_with_stdin() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os._exit(EXIT_FAILED)


@dataclasses.dataclass(frozen=True)
class ForkTarget:
    """The common part of all forked children.

    Attributes:
      prepare: imports the modules that all children need.
      work: runs a child with its arguments; returns its exit code.
      check: checks what needs these modules, in a child that then ends; returns its exit code.
    """

    prepare: Callable[[], None]
    work: Callable[[list[str]], int]
    check: Callable[[], int]


@dataclasses.dataclass
class Child:
    """A task of the job as a process.

    Attributes:
      name: name of the task, `ps:0`.
      output: what it has printed.
      reader: the thread that reads its output.
    """

    name: str
    process: ChildProcess
    output: TaskOutput
    reader: threading.Thread


def task_arguments(arguments: Sequence[str], name: str, restarts_made: int) -> list[str]:
    """Returns the flags of one task: those of the job, and its own."""
    if restarts_made:  # the checkpoints that are there are the task's own by now
        arguments = [argument for argument in arguments if not argument.startswith("--ignore_checkpoints")]
    job_name, _, index = name.partition(":")
    return [*arguments, f"--job_name={job_name}", f"--task_index={index}"]


def start_child(
    arguments: Sequence[str], environ: Mapping[str, str], reserved: socket.socket | None, template: ForkTarget
) -> ChildProcess:
    """Starts a child process.

    Nothing is written to its standard input, which closes when the launcher ends in any way.

    Args:
      arguments: the child's flags.
      environ: the launcher's environment.
      reserved: socket bound to the child's port, which it inherits; None if the port is not reserved.
      template: the common part of all children.
    """
    own = {name: value for name, value in environ.items() if name != "TF_CONFIG"}
    held = None if reserved is None else reserved.fileno()
    process = start_process(functools.partial(template.work, list(arguments)), ["ps_train", *arguments], own, held)
    if reserved is not None:
        reserved.close()
    return process


def start_process(
    work: Callable[[], int], command: Sequence[str], environ: Mapping[str, str], held: int | None
) -> ChildProcess:
    """Starts a process: a fork of this one, or a new one where this one cannot be forked any more.

    Args:
      work: the work of a fork; returns its exit code.
      command: module and arguments of a new process.
      environ: the environment.
      held: file descriptor of the socket that reserves the process's port; None if none is reserved.
    """
    environment = child_environment(environ, held)
    inherited = [] if held is None else [held]
    if fork.can_fork():
        return ForkedProcess(work, environment, inherited)
    return start_text_child([sys.executable, "-m", *command], environment, inherited=inherited)


def child_environment(environ: Mapping[str, str], held: int | None) -> dict[str, str]:
    """Returns the environment of a child that ends with this process and takes over the port of `held`."""
    own = {**environ, WATCH_STDIN_VARIABLE: "1", "PYTHONUNBUFFERED": "1"}
    return own if held is None else {**own, HELD_PORT_VARIABLE: str(held)}
