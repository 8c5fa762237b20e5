"""A child process of this one.

    process = start_child([sys.executable, "-m", "ps_train"], os.environ, stdout=subprocess.PIPE)

A child has a session of its own: Ctrl-C and other signals of the terminal reach only this process, which ends its
children by their pid, or stops them.  Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from ps_train.base.errors import signal_name

_PR_SET_PDEATHSIG = 1  # sys/prctl.h


def start_child(
    command: Sequence[str],
    environ: Mapping[str, str] | None = None,
    *,
    stdin: Any = subprocess.PIPE,
    stdout: Any = None,
    stderr: Any = None,
    inherited: Sequence[int] = (),
    **form: Any,
) -> subprocess.Popen[Any]:
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
    return subprocess.Popen(
        list(command),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=None if environ is None else dict(environ),
        pass_fds=inherited,
        start_new_session=True,
        **form,
    )


def start_text_child(
    command: Sequence[str],
    environ: Mapping[str, str] | None = None,
    *,
    stderr: Any = subprocess.PIPE,
    inherited: Sequence[int] = (),
) -> subprocess.Popen[str]:
    """Starts a process as `start_child` does, whose input and output are pipes of text; bad bytes are replaced."""
    pipe = subprocess.PIPE
    return start_child(command, environ, stdout=pipe, stderr=stderr, inherited=inherited, text=True, errors="replace")


def signal_at_parents_end(signum: int) -> None:
    """Makes the kernel send this process a signal when its parent ends (Linux)."""
    with contextlib.suppress(OSError, AttributeError):  # Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signum)


def kill_group(pid: int) -> None:
    """Kills a child with the processes that it has started in its session, if it still runs."""
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


def describe_exit(code: int) -> str:
    """Returns a description of an exit code for the console; a negative code is a signal."""
    if code < 0:
        return f"was ended by signal {-code} ({signal_name(-code)})"
    return f"failed with exit code {code}"
