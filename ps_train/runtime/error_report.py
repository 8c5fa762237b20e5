"""Errors of this process for the `ps_train.fit` that started it, which raises them again.

    report_error(error)                     # in every process of the job
    read_errors(path)                       # in the process that called fit

Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import NamedTuple

from ps_train.errors import headline

REPORT_VARIABLE = "PS_TRAIN_FIT_ERRORS"
"""Environment variable of the processes that fit starts: the file for their errors."""


class ReportedError(NamedTuple):
    """An error of another process: the name of its type and its text in one line."""

    kind: str
    text: str


def report_error(error: BaseException) -> None:
    """Adds an error to the file, if a fit started this process."""
    path = os.environ.get(REPORT_VARIABLE)
    if path:
        with contextlib.suppress(OSError), open(path, "a") as file:  # one write, so lines of processes do not mix
            file.write(json.dumps([type(error).__name__, headline(error)]) + "\n")


def read_errors(path: str) -> list[ReportedError]:
    """Returns the errors of all processes, the first one first."""
    with contextlib.suppress(FileNotFoundError), open(path) as file:
        return [ReportedError(*json.loads(line)) for line in file]
    return []
