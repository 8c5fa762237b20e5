"""The end of a process with the one that started it: the launcher, or a call of `fit`.  Standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading

from ps_train.config.job import WATCH_STDIN_VARIABLE
from ps_train.errors import EXIT_FAILED

PARENT_VARIABLE = "PS_TRAIN_FIT_PARENT"
"""Environment variable: process id of the call of `fit`."""

_PR_SET_PDEATHSIG = 1  # sys/prctl.h


def stop_with_parent() -> None:
    """Makes the end of the parent stop this job as SIGTERM does; does nothing in a process that no fit has started."""
    parent = int(os.environ.pop(PARENT_VARIABLE, 0))
    if not parent:
        return
    _signal_at_parents_end(signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), signal.SIGTERM)


def die_with_launcher() -> bool:
    """Ends this process when the launcher ends: standard input is a pipe that closes at that moment.

    Returns:
      Whether a launcher started this process.
    """
    if not os.environ.pop(WATCH_STDIN_VARIABLE, None):
        return False
    _signal_at_parents_end(signal.SIGKILL)  # also ends a stopped process
    threading.Thread(target=_end_with_stdin, daemon=True, name="launcher watch").start()
    return True


def _signal_at_parents_end(signum: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signum)


def _end_with_stdin() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os._exit(EXIT_FAILED)
