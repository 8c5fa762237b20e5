"""Console output: lines, and one progress line that a terminal overwrites in place.

    console = Console(sys.stdout, sys.stderr)
    console.line("plan: ...")                   # results and progress: standard output
    console.error("ps_train: error: ...")       # errors and warnings: standard error
    console.progress(Progress(...).text())

Standard library only, since the launcher uses it too.  The launcher recognises its children's progress, warning and
error lines, and the frames before an error, by their prefixes.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from typing import TextIO

from ps_train.runtime.progress_line import fit

PROGRESS_BEGINS = "step "
ERROR_BEGINS = "ps_train: error: "
WARNING_BEGINS = "warning: "
FRAMES_BEGIN = "Your code (--verbose shows all frames):"


def step_of(line: str) -> int:
    """Returns the global step of a progress line."""
    return int(line[len(PROGRESS_BEGINS) :].partition(" ")[0].partition("/")[0])


_USUAL_COLUMNS = 80
"""Width of a terminal that does not say its own."""


class Console:
    """A writer of lines to two streams.  Safe to use from several threads.

    Args:
      stream: receives results and progress.
      errors: receives errors and warnings; None: the same stream.

    Attributes:
      live: whether the stream is a terminal in which a line can be overwritten.
    """

    def __init__(self, stream: TextIO, errors: TextIO | None = None) -> None:
        self._stream, self._errors = stream, errors or stream
        self.live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._lock = threading.Lock()
        self._open = False

    def line(self, text: str) -> None:
        """Writes a line that stays."""
        self._write_line(self._stream, text)

    def error(self, text: str) -> None:
        """Writes a line that stays, about an error or a warning."""
        self._write_line(self._errors, text)

    def progress(self, text: str) -> None:
        """Writes the progress line; on a terminal it has the terminal's width and replaces the one before."""
        with self._lock:
            if self.live:
                _write(self._stream, f"\r\x1b[K{fit(text, _columns(self._stream))}")
                self._open = True
            else:
                _write(self._stream, text + "\n")

    def _write_line(self, stream: TextIO, text: str) -> None:
        with self._lock:
            if self._open:
                _write(self._stream, "\n")
                self._open = False
            _write(stream, text + "\n")


def _columns(stream: TextIO) -> int:
    """Returns the present width of a terminal, which its user may change at any time."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except UnicodeEncodeError:
        _write(stream, text.encode("ascii", "backslashreplace").decode())
    except (OSError, ValueError):
        pass  # the reader is gone, or the disk is full; training goes on


@dataclasses.dataclass(frozen=True)
class Progress:
    """The progress of a run.  Rates are of the whole job: global steps and examples of all workers.

    Attributes:
      step: the global step.
      max_steps: the global step at which the run ends; None if it has no known end.
      loss: the last loss; None before the first step.
      steps_per_sec: global steps per second.
      examples_per_sec: examples of all workers per second.
      staleness: the mean staleness over the run so far; None where it is not measured.
      waiting: the share of the steps' time spent waiting for other workers over the run so far, from 0 to 1; None
        where it is not measured.
      batch_size: the present size of batches; None where it is fixed.
    """

    step: int
    max_steps: int | None
    loss: float | None
    steps_per_sec: float
    examples_per_sec: float
    staleness: float | None = None
    waiting: float | None = None
    batch_size: int | None = None

    def text(self) -> str:
        """Returns the progress line."""
        parts = [
            f"{PROGRESS_BEGINS}{self.step}" + ("" if self.max_steps is None else f"/{self.max_steps}"),
            "loss -" if self.loss is None else f"loss {self.loss:.4f}",
            f"{self.steps_per_sec:.0f} global steps/s",
            f"{self.examples_per_sec:.0f} examples/s",
        ]
        parts += [] if self.staleness is None else [f"staleness {self.staleness:.2f}"]
        parts += [] if self.waiting is None else [f"waiting {self.waiting:.0%}"]
        parts += [] if self.batch_size is None else [f"batch {self.batch_size}"]
        if self.max_steps is not None:
            left = (self.max_steps - self.step) / self.steps_per_sec if self.steps_per_sec > 0 else None
            parts.append(f"ETA {_duration(left)}")
        return "  ".join(parts)


class ConsoleHandler(logging.Handler):
    """Sends log records to a console, one line each."""

    def __init__(self, console: Console, prefix: str) -> None:
        super().__init__()
        self._console, self._prefix = console, prefix

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record; from WARNING on to standard error, with its level."""
        if record.levelno < logging.WARNING:
            self._console.line(f"{self._prefix}{record.getMessage()}")
        else:
            self._console.error(f"{self._prefix}{record.levelname.lower()}: {record.getMessage()}")


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, secs = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"
