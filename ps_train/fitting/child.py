"""The program of the process that fit starts: `python -m ps_train`, which stops when its parent ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

from ps_train.__main__ import run

PARENT_VARIABLE = "PS_TRAIN_FIT_PARENT"
"""Environment variable: process id of the parent."""

_PR_SET_PDEATHSIG = 1  # sys/prctl.h


def stop_with_parent() -> None:
    """Makes the end of the parent stop this job as SIGTERM does: with a checkpoint."""
    parent = int(os.environ.pop(PARENT_VARIABLE))
    with contextlib.suppress(OSError, AttributeError):  # Linux
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the call
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    stop_with_parent()
    run()
