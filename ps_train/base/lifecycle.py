"""Lifecycle events of a job, such as a lost worker or a saved checkpoint, beside its newest log lines.

    log.warning("worker:1 is lost", extra=event("lost", "worker:1"))     # a log line that is an event, too
    recorder = Recorder(events_json="/tmp/events.json")                   # a logging.Handler; see `recorder.events()`

Standard library only, since the launcher's room uses it too.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ps_train.base.errors import ConfigError
from ps_train.base.lost_outputs import lose

KINDS = {
    "started": "The chief starts.",
    "joined": "A task has joined, or answers again.",
    "lost": "A task does not answer.",
    "restarted": "A task is back in a new process or at a new address.",
    "saved": "A checkpoint is complete.",
    "restored": "Variables were restored from a checkpoint, at a resume or after a loss.",
    "fault": "`--inject_fault` has caused a fault.",
    "evaluated": "The evaluator has scored a checkpoint.",
    "adapted": "A value that follows measurements has changed, or `--ps_weights=auto` has chosen weights.",
    "warned": "The loss rises while gradients are stale.",
    "ended": "The job has ended; with the cause if it failed.",
}
"""The kinds of events, and what each means."""

_quiet = logging.getLogger("ps_train.events")
_quiet.propagate = False
_quiet.setLevel(logging.INFO)
_quiet.addHandler(logging.NullHandler())

_MOST_EVENTS, _MOST_LINES, _MOST_CHARACTERS = 200, 100, 500


@dataclasses.dataclass(frozen=True)
class Event:
    """Something that happened to a job.

    Attributes:
      time: seconds since 1970, by this process's clock.
      kind: one of KINDS.
      task: the task that it happened to; "" for the job.
      text: a line for people.
    """

    time: float
    kind: str
    task: str
    text: str


def event(kind: str, task: str = "") -> dict[str, Any]:
    """Returns the `extra` that makes an event of a log line."""
    assert kind in KINDS, kind
    return {"event": kind, "task": task}


class Recorder(logging.Handler):
    """A log handler that keeps the newest events and lines.  Safe to use from several threads.

    Args:
      events_json: file to which each event is appended as one JSON object a line; "": no file.

    Raises:
      ConfigError: the file cannot be opened.
    """

    def __init__(self, events_json: str = "") -> None:
        super().__init__()
        self._events: collections.deque[Event] = collections.deque(maxlen=_MOST_EVENTS)
        self._lines: collections.deque[dict[str, Any]] = collections.deque(maxlen=_MOST_LINES)
        self._changes = threading.Lock()
        self._output = f"events_json={events_json}"
        try:
            self._file = open(events_json, "a") if events_json else None  # noqa: SIM115  (open until the process ends)
        except OSError as error:
            raise ConfigError(
                f"events_json={events_json} cannot be written to ({error.strerror}): use another file."
            ) from None

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a log record: its line, and its event if it is one."""
        text = record.getMessage()
        if record.name != _quiet.name:  # an event that is no line of the console
            self.line(text, record.levelname.lower(), record.created)
        if kind := getattr(record, "event", None):
            self.add(Event(record.created, kind, getattr(record, "task", ""), text))

    def line(self, text: str, level: str = "info", now: float | None = None) -> None:
        """Keeps a line of the console."""
        now = time.time() if now is None else now
        with self._changes:
            self._lines.append({"time": now, "level": level, "text": text[:_MOST_CHARACTERS]})

    def add(self, found: Event) -> None:
        """Keeps an event, and writes it to the file; a full disk loses it, which is told."""
        found = dataclasses.replace(found, text=found.text[:_MOST_CHARACTERS])
        refused: OSError | None = None
        with self._changes:
            self._events.append(found)
            if self._file is not None:
                try:
                    self._file.write(json.dumps(dataclasses.asdict(found)) + "\n")
                    self._file.flush()
                except OSError as error:
                    refused = error
        if refused is not None:  # its warning comes back to this handler
            lose(self._output, refused)

    def events(self) -> list[Event]:
        """Returns the newest events, oldest first."""
        with self._changes:
            return sorted(self._events, key=lambda found: found.time)

    def lines(self) -> list[dict[str, Any]]:
        """Returns the newest lines, oldest first: time, level and text of each."""
        with self._changes:
            return list(self._lines)


def with_ages(events: Sequence[Event], now: float) -> list[dict[str, Any]]:
    """Returns events for a process with another clock: with their age in seconds in the place of their time."""
    return [{"age": now - e.time, "kind": e.kind, "task": e.task, "text": e.text} for e in events]


def from_age(found: Mapping[str, Any], now: float) -> Event:
    """Returns an event of `with_ages` by the clock of this process.

    Raises:
      KeyError, TypeError, ValueError: it is none.
    """
    return Event(now - float(found["age"]), str(found["kind"]), str(found["task"]), str(found["text"]))


def record_event(kind: str, text: str, task: str = "") -> None:
    """Records an event that the console does not show; it is lost where no recorder is attached."""
    _quiet.info("%s", text, extra=event(kind, task))


def attach(recorder: Recorder) -> Recorder:
    """Makes a recorder the only one of this process that gets the log lines and events of ps_train; returns it."""
    for logger in (logging.getLogger("ps_train"), _quiet):
        for handler in [handler for handler in logger.handlers if isinstance(handler, Recorder)]:
            logger.removeHandler(handler)
        logger.addHandler(recorder)
    return recorder
