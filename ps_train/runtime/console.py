"""Console output: lines, and one progress line that a terminal overwrites in place.

    console = Console(sys.stdout)
    console.line("plan: ...")
    console.progress(Progress(...).text())

Standard library only, since the launcher uses it too.  The launcher recognises its children's progress and error lines
by their prefixes.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from typing import TextIO

PROGRESS_BEGINS = "step "
ERROR_BEGINS = "ps_train: error: "


def step_of(line: str) -> int:
    """Returns the global step of a progress line."""
    return int(line[len(PROGRESS_BEGINS) :].partition("/")[0])


class Console:
    """A writer of lines to a stream.  Safe to use from several threads.

    Attributes:
      live: whether the stream is a terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.live = stream.isatty()
        self._lock = threading.Lock()
        self._open = False

    def line(self, text: str) -> None:
        """Writes a line that stays."""
        with self._lock:
            self._close()
            self._write(text + "\n")

    def progress(self, text: str) -> None:
        """Writes the progress line; on a terminal it replaces the one before."""
        with self._lock:
            if self.live:
                self._write(f"\r\x1b[K{text}")
                self._open = True
            else:
                self._write(text + "\n")

    def _close(self) -> None:
        if self._open:
            self._write("\n")
            self._open = False

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except UnicodeEncodeError:
            self._write(text.encode("ascii", "backslashreplace").decode())
        except (OSError, ValueError):
            pass  # the reader is gone, or the disk is full; training goes on


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of a run.  Rates are of the whole job: global steps and examples of all workers.

    Attributes:
      step: the global step.
      max_steps: the global step at which the run ends.
      loss: the last loss; None before the first step.
      steps_per_sec: global steps per second.
      examples_per_sec: examples of all workers per second.
      staleness: the mean staleness over the run so far; None where it is not measured.
      waiting: the share of the steps' time spent waiting for other workers over the run so far, from 0 to 1; None
        where it is not measured.
    """

    step: int
    max_steps: int
    loss: float | None
    steps_per_sec: float
    examples_per_sec: float
    staleness: float | None = None
    waiting: float | None = None

    def text(self) -> str:
        """Returns the progress line."""
        loss = "-" if self.loss is None else f"{self.loss:.4f}"
        left = (self.max_steps - self.step) / self.steps_per_sec if self.steps_per_sec > 0 else None
        stale = "" if self.staleness is None else f"staleness {self.staleness:.2f}  "
        stale += "" if self.waiting is None else f"waiting {self.waiting:.0%}  "
        return (
            f"{PROGRESS_BEGINS}{self.step}/{self.max_steps}  loss {loss}  {self.steps_per_sec:.0f} global steps/s  "
            f"{self.examples_per_sec:.0f} examples/s  {stale}ETA {_duration(left)}"
        )


class ConsoleHandler(logging.Handler):
    """Sends log records to a console, one line each."""

    def __init__(self, console: Console, prefix: str) -> None:
        super().__init__()
        self._console, self._prefix = console, prefix

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record; the level is shown from WARNING on."""
        level = "" if record.levelno < logging.WARNING else record.levelname.lower() + ": "
        self._console.line(f"{self._prefix}{level}{record.getMessage()}")


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, secs = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"
