"""The end of a job with the process that started it by `fit`: it stops with a checkpoint."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

PARENT_VARIABLE = "PS_TRAIN_FIT_PARENT"
"""Environment variable: process id of the parent."""

_PR_SET_PDEATHSIG = 1  # sys/prctl.h


def stop_with_parent() -> None:
    """Makes the end of the parent stop this job as SIGTERM does; does nothing in a process that no fit has started."""
    parent = int(os.environ.pop(PARENT_VARIABLE, 0))
    if not parent:
        return
    with contextlib.suppress(OSError, AttributeError):  # Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), signal.SIGTERM)
