"""The log of a task: a copy of all that its process writes, also of what native libraries write.

    log = TaskLog("logs", "worker:1")        # logs/worker_1.log
    ...
    log.close()

Two processes `tee` copy standard output and standard error.  They end when the task's process does, and copy its last
words even if it crashes.  Both append to one file, so Python's streams write whole lines from then on.
Standard library only.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys

from ps_train.base.children import NewProcess, start_child
from ps_train.base.errors import ConfigError

_CLOSE_SECS = 2.0


class TaskLog:
    """Copies the output of this process into a file, to which it appends.

    Args:
      directory: the directory of --log_dir, which is made.
      task: name of the task.

    Raises:
      ConfigError: the file cannot be written.
    """

    def __init__(self, directory: str, task: str) -> None:
        path = os.path.join(directory, f"{task.replace(':', '_')}.log")
        self._copies: list[NewProcess] = []
        self._output = f"log_dir={directory}"
        self._errors = os.dup(2)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            os.makedirs(directory, exist_ok=True)
            # A FIFO without a reader is refused, and not waited for.
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666))
            for number in (1, 2):
                self._copies.append(start_child(["tee", "-a", path], stdout=number))
        except OSError as error:
            raise ConfigError(
                f"log_dir={directory}: {path} cannot be written ({error.strerror}): use another directory."
            ) from None
        for number, copy in enumerate(self._copies, 1):
            assert copy.stdin is not None
            os.dup2(copy.stdin.fileno(), number)
            copy.stdin.close()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # PYTHONUNBUFFERED writes a line and its end apart: a line of the other stream comes between them.
                stream.reconfigure(line_buffering=True, write_through=False)

    def close(self) -> str:
        """Waits until the copies are complete; the process must write nothing more to its standard streams.

        Returns:
          The flag if the log is not complete, else "".
        """
        null, codes = os.open(os.devnull, os.O_WRONLY), []
        for number, copy in enumerate(self._copies, 1):
            os.dup2(null, number)
            codes.append(copy.wait_for(_CLOSE_SECS))  # not longer: a process of the user's may still write
        os.close(null)
        return self._output if 1 in codes else ""  # a copy whose reader is gone ends by SIGPIPE, with another code

    def error(self, text: str) -> None:
        """Writes a line to the standard error that the process had before."""
        with contextlib.suppress(OSError):
            os.write(self._errors, f"{text}\n".encode())
