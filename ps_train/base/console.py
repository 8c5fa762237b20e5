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
import functools
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TextIO

_GAP = "  "
_LONGEST_BAR, _WIDE_BAR, _SHORTEST_BAR = 30, 10, 3
_FIRST = (r"step ", r"loss ", r".* examples/s$", r"ETA ")
"""The parts that are shown as long as possible; the others are left out first."""


def fit(text: str, width: int) -> str:
    """Returns a progress line that takes fewer than `width` columns.

    Parts that matter less are left out first.  Then the labels become short, and at last the bar goes.

    Args:
      text: the plain line, whose parts stand two spaces apart.
      width: columns of the terminal.
    """
    room = max(1, width - 1)  # a terminal may go to the next line after a character in its last column
    share = _share(text)
    if share is None and not re.match(r"step \d+  ", text):
        return text[:room]
    for parts, gap, shortest_bar in _variants(text.split(_GAP)):
        line = gap.join(parts)
        if not shortest_bar or share is None:
            if len(line) <= room:
                return line
        elif (left := room - len(line) - len("[] ")) >= shortest_bar:
            return f"{_bar(share, min(left, _LONGEST_BAR))} {line}"
    return text[:room]


def _variants(parts: Sequence[str]) -> Iterator[tuple[list[str], str, int]]:
    """Yields (parts, gap between them, shortest bar), the best first; 0 stands for no bar."""
    kept = list(parts)
    while len(kept) > (first := sum(map(_is_first, kept))):
        yield kept, _GAP, _WIDE_BAR
        last = max(index for index, part in enumerate(kept) if not _is_first(part))
        kept = kept[:last] + kept[last + 1 :]
    yield kept, _GAP, _WIDE_BAR
    yield kept, " ", _WIDE_BAR
    for shorten in (_short, _shortest):
        yield [shorten(part) for part in kept], " ", _SHORTEST_BAR
    for count in range(first, 0, -1):
        yield [_shortest(part) for part in kept[:count]], " ", 0


def _is_first(part: str) -> bool:
    return any(re.match(pattern, part) for pattern in _FIRST)


def _share(text: str) -> float | None:
    """Returns the share of the steps that are made; None if the line does not give it."""
    found = re.match(r"step (\d+)/(\d+)", text)
    return min(1.0, int(found[1]) / int(found[2])) if found and int(found[2]) else None


def _bar(share: float, length: int) -> str:
    full = int(share * length)
    return f"[{'#' * full}{'-' * (length - full)}]"


def _short(part: str) -> str:
    """Returns a part with short labels."""
    return part.replace(" examples/s", " ex/s").removeprefix("step ")


def _shortest(part: str) -> str:
    """Returns a part with the shortest labels and at most three digits of precision."""
    part = _short(part).removeprefix("ETA ")
    rules: list[tuple[str, Callable[[re.Match[str]], str]]] = [
        (r"^(\d{4,}) ex/s$", lambda found: f"{_rounded(int(found[1]))} ex/s"),
        (r"^loss (-?\d+\.\d+)$", lambda found: f"loss {float(found[1]):.3g}"),
    ]
    for pattern, shortened in rules:
        part = re.sub(pattern, shortened, part)
    return part


def _rounded(number: int) -> str:
    return f"{number / 1e6:.1f}M" if number >= 1e6 else f"{number / 1e3:.0f}k" if number >= 1e4 else str(number)


def human_secs(secs: float) -> str:
    """Formats a duration that was computed: 5.9999 as `6s`, 0.25 as `0.25s`."""
    return f"{secs:.1f}".removesuffix(".0") + "s" if secs >= 1 else f"{secs:.2g}s"


def human_bytes(count: float) -> str:
    """Returns a number of bytes as text with a unit, such as "1.5 MiB"."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


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


_READ = (
    rf"{PROGRESS_BEGINS}(\d+)(?:/(\d+))?",
    r"loss (-|nan|-?inf|-?\d+\.\d+)",
    r"(\d+) global steps/s",
    r"(\d+) examples/s",
)
"""The first parts of a progress line."""


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
      loss_rise: the rise of the loss over its lowest, as a part of the latter; None where it is not known.
      gauges: a word to its present value, of what parts of the step show.
    """

    step: int
    max_steps: int | None
    loss: float | None
    steps_per_sec: float
    examples_per_sec: float
    staleness: float | None = None
    waiting: float | None = None
    loss_rise: float | None = None
    gauges: Mapping[str, int | str] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, line: str) -> Progress | None:
        """Returns the progress that a line of `text` shows; None for another line."""
        parts = line.split(_GAP)
        found = [re.fullmatch(pattern, part) for pattern, part in zip(_READ, parts, strict=False)]
        if len(found) < len(_READ) or not all(found):
            return None
        step, loss, steps, examples = (match.groups() for match in found if match is not None)
        last = None if step[1] is None else int(step[1])
        return cls(int(step[0]), last, None if loss[0] == "-" else float(loss[0]), float(steps[0]), float(examples[0]))

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
        parts += [f"{word} {value}" for word, value in self.gauges.items()]
        if self.max_steps is not None:
            left = (self.max_steps - self.step) / self.steps_per_sec if self.steps_per_sec > 0 else None
            parts.append(f"ETA {duration(left)}")
        return "  ".join(parts)


def quiet_console() -> Console:
    """Returns a console for a job in a program that shows its progress itself: only warnings and errors are seen."""
    return Console(_nowhere(), sys.stderr)


@functools.cache
def _nowhere() -> TextIO:
    return open(os.devnull, "w")


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


def duration(seconds: float | None) -> str:
    """Returns seconds as text, such as "1:02:05"; "-" for None."""
    if seconds is None:
        return "-"
    minutes, secs = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"
