"""The queue of points and the thread that hands them to a tracker.

    tracking = Tracking(MlflowTracker(), "mlflow", found)
    tracking.begin(lambda: tracked_run(...))          # the thread begins
    tracking.add(200, {"loss": 0.31})                 # never waits
    tracking.end("done", files, within_secs=5)        # waits for five seconds at most

A tracker that fails is told of in one line, and tried again.  The points of this time wait in the queue.  If it is
full, the oldest go, and the end says how many.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ps_train.base import side_work
from ps_train.base.errors import PsTrainError, one_line
from ps_train.base.sending import Sender
from ps_train.observe.tracking.tracked_run import TrackedRun

log = logging.getLogger(__name__)

_MOST_POINTS = 1000
_MOST_AT_ONCE = 100
_SEND_SECS, _LONGEST_RETRY_SECS = 2.0, 60.0
"""Seconds between two sendings, so that each has several points, and the longest time between two attempts."""

END_SECS, STOPPED_SECS = 5.0, 2.0
"""Seconds for the rest at the end of a job, and of one that a signal stopped."""

_LOAD_SECS = 30.0
"""Seconds that a job which is done before the library is imported waits for that: the run would be lost."""

_LONGEST_TEXT = 200


@dataclasses.dataclass(frozen=True)
class Point:
    """Numbers by name at a global step.

    Attributes:
      step: the global step.
      values: name to number, with the names of the event files.
      time: seconds since 1970.
    """

    step: int
    values: Mapping[str, float]
    time: float


@dataclasses.dataclass(frozen=True)
class RunEnd:
    """The end of a run.

    Attributes:
      state: "done", "stopped" or "failed".
      files: paths of the files to keep with the run; some may be missing.
    """

    state: str
    files: Sequence[str]


class RefusedRunError(Exception):
    """The tracker cannot have this run, and will not in a minute."""


class Tracker(Protocol):
    """One library.  Its methods may block and raise; a call that raised is made again."""

    def load(self) -> None:
        """Imports the library, which takes seconds and asks no server.

        Raises:
          RefusedRunError: it cannot be imported.
        """

    def begin(self, run: TrackedRun) -> str:
        """Begins a run, or goes on with it; returns its address, "" for none.

        Raises:
          RefusedRunError: another attempt would fail, too.
        """

    def send(self, points: Sequence[Point], tags: Mapping[str, str]) -> None:
        """Sends points and texts by name."""

    def end(self, end: RunEnd) -> None:
        """Sends the end of the run and its files."""

    def abandon(self) -> None:
        """Leaves a call that does not return, so that it does not delay the end of this process; any thread."""


@dataclasses.dataclass(frozen=True)
class Findings:
    """Readers of what the chief finds out beside the points; called by the tracking thread.

    Attributes:
      evaluations: returns the metrics of the evaluator by global step.
      health: returns the findings of health; see `/api/status`.
    """

    evaluations: Callable[[], Mapping[int, Mapping[str, float]]] = dict
    health: Callable[[], Sequence[Mapping[str, Any]]] = tuple


class Tracking:
    """The queue and its thread.  Safe to use from several threads; no method raises.

    Args:
      tracker: the tracker; None for none, and then every method does nothing.
      name: the value of --track.
      findings: what the thread reads by itself.
      most_points: points that the queue holds.
      send_secs: seconds between two sendings.
    """

    def __init__(
        self,
        tracker: Tracker | None,
        name: str = "none",
        findings: Findings | None = None,
        most_points: int = _MOST_POINTS,
        send_secs: float = _SEND_SECS,
    ) -> None:
        self._tracker, self._name, self._findings = tracker, name, findings or Findings()
        self._points: collections.deque[Point] = collections.deque(maxlen=most_points)
        self._tags: dict[str, str] = {}
        self._lock, self._loaded = threading.Lock(), threading.Event()
        self._added = self._sent = 0
        self._sender = Sender("tracking", self._send, self._has_failed, send_secs, (send_secs, _LONGEST_RETRY_SECS))
        self._make_run: Callable[[], TrackedRun] | None = None
        self._run: TrackedRun | None = None
        self._end: RunEnd | None = None
        self._has_begun = self._is_told = self._is_refused = self._is_end_sent = self._is_abandoned = False
        self._health: dict[str, str] = {}
        self._evaluated: set[int] = set()

    def begin(self, make_run: Callable[[], TrackedRun]) -> None:
        """Starts the thread, once; `make_run` is called there."""
        if self._tracker is None or self._make_run is not None:
            return
        self._make_run = make_run
        self._sender.start()
        self._sender.flush(0)

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Takes in a point; drops the oldest one if the queue is full."""
        if self._tracker is None or self._is_refused:
            return
        with self._lock:
            self._added += 1
            self._points.append(Point(step, dict(values), time.time()))

    def tag(self, name: str, text: str) -> None:
        """Takes in a text, such as the path of the export."""
        if self._tracker is not None:
            with self._lock:
                self._tags[name] = text

    def end(self, state: str, files: Sequence[str] = (), within_secs: float = END_SECS) -> None:
        """Sends the rest and ends; says in one line what was not sent.

        Args:
          state: "done", "stopped" or "failed".
          files: paths of the files to keep with the run.
          within_secs: seconds to wait.
        """
        if self._tracker is None or self._make_run is None or self._end is not None:
            return
        self._end = RunEnd(state, files)
        if state == "done":
            self._loaded.wait(_LOAD_SECS)
        self._sender.flush(within_secs, is_last=True)
        with self._lock:
            is_end_sent, lost = self._is_end_sent, self._added - self._sent
            self._is_abandoned = not self._sender.is_over
        if self._is_abandoned:
            self._tracker.abandon()
        if self._is_refused or (self._is_told and not self._has_begun):
            return  # the line that said so was enough
        if not self._has_begun:
            log.warning("track=%s: nothing was sent, it does not answer", self._name)
        elif lost:
            log.warning("track=%s: %d of %d points were not sent", self._name, lost, self._added)
        elif not is_end_sent:
            log.warning("track=%s: the end of the run was not sent", self._name)

    def _has_failed(self, error: Exception) -> bool:
        self._is_refused = isinstance(error, RefusedRunError)
        if self._is_refused:
            self._points.clear()
        self._tell(f"{_short(error)}; {'this run is not tracked' if self._is_refused else 'training continues'}")
        return not self._is_refused

    def _tell(self, text: str) -> None:
        log.debug("track=%s", self._name, exc_info=True)
        side_work.failed("tracking", text, is_told=True)
        if not self._is_told and not self._is_abandoned:
            self._is_told = True
            log.warning("track=%s: %s", self._name, text)

    def _loaded_run(self, tracker: Tracker) -> TrackedRun:
        if self._run is None:
            assert self._make_run is not None
            try:
                tracker.load()
                self._run = self._make_run()
            finally:
                self._loaded.set()
        return self._run

    def _send(self, is_asked: bool) -> None:
        """Sends all that is there; with an end also that."""
        tracker = self._tracker
        if tracker is None or self._is_end_sent:
            return
        run, end = self._loaded_run(tracker), self._end  # it may have come while the library was imported
        if not self._has_begun:
            is_new = not run.kept_id(self._name)
            address = tracker.begin(run)
            self._evaluated = set() if is_new else set(self._findings.evaluations())  # an earlier process sent them
            self._has_begun = True
            if address:
                log.info("track    %s", address)
        self._read_findings()
        while True:
            with self._lock:
                points, tags = [*self._points][:_MOST_AT_ONCE], dict(self._tags)
            if not points and not tags:
                break
            tracker.send(points, tags)
            self._remove(points, tags)
        if end is not None:
            tracker.end(end)
            self._is_end_sent = True

    def _remove(self, points: Sequence[Point], tags: Mapping[str, str]) -> None:
        with self._lock:
            self._sent += len(points)
            sent = {id(point) for point in points}  # the queue may have dropped some of them meanwhile
            while self._points and id(self._points[0]) in sent:
                self._points.popleft()
            self._tags = {name: text for name, text in self._tags.items() if tags.get(name) != text}

    def _read_findings(self) -> None:
        for step, metrics in self._findings.evaluations().items():
            if step not in self._evaluated:
                self._evaluated.add(step)
                self.add(step, {f"eval/{name}": value for name, value in metrics.items()})
        found = {
            f"health.{one['rule']}" + (f".{one['task']}" if one["task"] else ""): _health_text(one)
            for one in self._findings.health()
            if one["state"] == "warn"
        }
        for name in self._health.keys() - found.keys():
            found[name] = "ok"
        for name, text in found.items():
            if self._health.get(name) != text:
                self.tag(name, text)
        self._health = found


def _health_text(finding: Mapping[str, Any]) -> str:
    return f"{finding['title']}: {finding['text']}" + (f"; {finding['advice']}" if finding["advice"] else "")


def _short(error: Exception) -> str:
    text = one_line(error) or type(error).__name__
    text = (
        text
        if isinstance(error, PsTrainError | RefusedRunError | ConnectionError)
        else (f"{type(error).__name__}: {text}")
    )
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
