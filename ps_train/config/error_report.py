"""Errors of this process: for the `ps_train.fit` that started it, and for a file of --log_dir.

    report_error(error)                     # in every process of the job
    read_errors(path)                       # in the process that called fit
    ErrorFile("logs", "worker:1").write("out of memory", "", exit_code=1)      # logs/worker_1.error.json

Standard library only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time
from typing import NamedTuple

from ps_train.base.errors import headline
from ps_train.base.untrusted import UntrustedError, is_of, parse_json, read_text
from ps_train.base.whole_file import write_whole

REPORT_VARIABLE = "PS_TRAIN_FIT_ERRORS"
"""Environment variable of the processes that fit starts: the file for their errors."""


class ReportedError(NamedTuple):
    """An error of another process: the name of its type and its text in one line."""

    kind: str
    text: str


def report_error(error: BaseException) -> bool:
    """Adds an error to the file, if a fit started this process; returns True if it did."""
    path = os.environ.get(REPORT_VARIABLE)
    if path:
        with contextlib.suppress(OSError), open(path, "a") as file:  # one write, so lines of processes do not mix
            file.write(json.dumps([type(error).__name__, headline(error)]) + "\n")
            return True
    return False


def is_reported() -> bool:
    """Returns True if a fit started this process and will raise what a task of the job has reported."""
    return bool(read_errors(os.environ.get(REPORT_VARIABLE, "")))


def read_errors(path: str) -> list[ReportedError]:
    """Returns the errors of all processes, the first one first; leaves out a line that is not whole."""
    found = []
    with contextlib.suppress(OSError, UntrustedError):
        for line in read_text(path).splitlines():
            with contextlib.suppress(UntrustedError):
                value = parse_json(line)
                if is_of("list[str]", value) and len(value) == 2:
                    found.append(ReportedError(*value))
    return found


@dataclasses.dataclass(frozen=True)
class ErrorFile:
    """The error of a task as JSON, in a directory of --log_dir.

    Attributes:
      directory: the directory; "" for no file.
      task: name of the task, "worker:1".
    """

    directory: str
    task: str

    @property
    def path(self) -> str:
        """The path of the file."""
        return os.path.join(self.directory, f"{self.task.replace(':', '_')}.error.json")

    def remove(self) -> None:
        """Removes the file that an earlier process of the task has written."""
        if self.directory:
            with contextlib.suppress(OSError):
                os.unlink(self.path)

    def write(self, cause: str, trace: str, exit_code: int) -> None:
        """Writes the file in one piece, unless the task has written it already; a full disk loses it.

        Args:
          cause: the cause in one line.
          trace: Python's traceback; "" if there is none.
          exit_code: of the task's process, 128 + n for signal n.
        """
        if not self.directory or os.path.exists(self.path):
            return
        value = {"task": self.task, "cause": cause, "traceback": trace, "time": time.time(), "exit_code": exit_code}
        with contextlib.suppress(OSError):
            os.makedirs(self.directory, exist_ok=True)
            write_whole(self.path, json.dumps(value) + "\n", is_contended=True)
