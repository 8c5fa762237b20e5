"""The board: the present state of a job in the chief, as `status_json.py` describes it.

    board = Board(job, cluster, recorder, "/models/run1", displays)
    board.planned(plan)                             # before the first step
    board.read_records(0, items)                    # the heartbeat, each second, for each ps
    board.progress(progress, counters, saves=None)  # the training thread, every few seconds
    board.status(), board.history()                 # the threads of the server

Nothing here calls a ps or waits for anything but its own lock.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from ps_train import __version__
from ps_train.base import side_work
from ps_train.base.console import Progress
from ps_train.base.lifecycle import Event, Recorder
from ps_train.base.lifecycle import event as of_kind
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership.records import TaskState
from ps_train.config.job import Job
from ps_train.config.slice_names import split_slices
from ps_train.engine.updates.counters.counter_values import RunCounterValues
from ps_train.engine.variables.plan import Plan
from ps_train.observe.progress.eval_events import EvalLog
from ps_train.observe.status.display import Displays
from ps_train.observe.status.health import LOSS_RISE, findings, warning
from ps_train.observe.status.measured_network import read_network
from ps_train.observe.status.status_json import VERSION
from ps_train.observe.status.tasks import WAITING_FOR, TaskBoard

log = logging.getLogger(__name__)

_MOST_POINTS = 1000

_STALL_SECS, _STALL_REPORTS = 10.0, 3
"""Rates of the job are not known after so many seconds, and so many missed reports, without progress."""


_SAME_SECS = 30.0
"""Seconds within which tasks tell of one loss or return of a ps."""


class History:
    """Points in the order of time.  When it is full every second point goes, and further ones come half as often."""

    def __init__(self) -> None:
        self._points: list[Mapping[str, Any]] = []
        self._every, self._seen = 1, 0
        self._lock = threading.Lock()

    def add(self, point: Mapping[str, Any]) -> None:
        """Takes in a point.  One with an earlier step than the last is kept, too: the run went back."""
        with self._lock:
            if self._seen % self._every == 0:
                self._points.append(point)
            self._seen += 1
            if len(self._points) >= _MOST_POINTS:
                self._points, self._every = self._points[::2], 2 * self._every

    def points(self) -> list[Mapping[str, Any]]:
        """Returns the points, at most 1000."""
        with self._lock:
            return list(self._points)


_STATES: dict[str, str] = {
    "absent": "starting",
    TaskState.STARTING: "starting",
    TaskState.RECOVERING: "recovering",
    TaskState.LEAVING: "finishing",
    TaskState.LEFT: "finishing",
}
"""States of a job by that of its chief on the board; every other one is "training"."""


class Board:
    """The state of a job.  Safe to use from several threads.

    Args:
      cluster: its tasks at the start.
      recorder: has the events and log lines.
      directory: the model directory, in which an evaluator may write.
      displays: what features show.

    Attributes:
      tasks: the state of each task.
      displays: as given.
    """

    def __init__(self, job: Job, cluster: Cluster, recorder: Recorder, directory: str, displays: Displays) -> None:
        self._job, self._recorder, self.displays = job, recorder, displays
        self._chief = str(cluster.chief)
        self.tasks = TaskBoard(cluster, job.heartbeat_timeout_secs, recorder, displays)
        self._history, self._evaluations = History(), EvalLog(directory, job.eval_by)
        self._network = read_network(directory) if directory else {}
        self._lock = threading.Lock()
        self._start = time.time()
        self._progress: Progress | None = None
        self._progress_at = 0.0
        self._counters: RunCounterValues | None = None
        self._saves: Mapping[str, Any] | None = None
        self._metrics: Mapping[str, float] = {}
        self._end: tuple[str, str | None, float] | None = None
        self._is_finishing = self._has_warned = False
        self._health: list[dict[str, Any]] | None = None

    def planned(self, plan: Plan) -> None:
        """Takes in the placement of the variables."""
        self.tasks.planned(plan)

    def finishing(self) -> None:
        """The training is over; the last checkpoint, the scores and the result are still to come."""
        self._is_finishing = True

    def read_records(self, index: int, items: Mapping[str, str]) -> None:
        """Takes in the records of a ps's store."""
        self.tasks.read_records(index, items, time.monotonic())

    def progress(self, progress: Progress, counters: RunCounterValues, saves: Mapping[str, Any] | None) -> None:
        """Takes in the progress of the training.

        Args:
          progress: step, loss and rates.
          counters: the counters of the run.
          saves: statistics of the checkpoints; see `AsyncSaver.report`.
        """
        with self._lock:
            self._progress, self._counters, self._saves = progress, counters, saves
            self._progress_at = time.monotonic()
        self.status()  # judges the health while all train
        self._history.add(
            {
                "time": time.time(),
                "step": progress.step,
                "loss": progress.loss,
                "steps_per_sec": progress.steps_per_sec,
                "examples_per_sec": progress.examples_per_sec,
                "staleness": progress.staleness,
                "waiting": progress.waiting,
                "workers": self.tasks.examples_per_sec(time.monotonic()),
            }
        )

    def saved(self, saves: Mapping[str, Any] | None) -> None:
        """Takes in the statistics of the checkpoints after the last progress, and the step that was saved last."""
        step = saves["last_step"] if saves else None
        with self._lock:
            self._saves = saves or self._saves
            if step is not None and (self._progress is None or step > self._progress.step):
                none = Progress(step, self._job.last_step, None, 0.0, 0.0)
                self._progress = dataclasses.replace(self._progress or none, step=step)

    def end(self, state: str, cause: str | None = None) -> None:
        """Takes in the end of the job: "done", "stopped" or "failed", and the cause."""
        with self._lock:
            self._end = self._end or (state, cause, time.time())
        self.tasks.end()

    def set_metrics(self, metrics: Mapping[str, float]) -> None:
        """Takes in the metrics of the test split."""
        with self._lock:
            self._metrics = dict(metrics)

    def evaluations(self) -> dict[int, dict[str, float]]:
        """Returns the metrics of the evaluator by global step."""
        return self._evaluations.read()

    def health(self) -> list[dict[str, Any]]:
        """Returns the newest findings of health."""
        return self._health or []

    def status(self) -> dict[str, Any]:
        """Returns the content of /api/status."""
        with self._lock:
            progress, counters, saves, end = self._progress, self._counters, self._saves, self._end
        whole, slices = split_slices(self._metrics or self._evaluations.newest(), self._job.eval_by)
        now = time.monotonic()
        workers = self.tasks.workers(now)
        state = end[0] if end else self._state(workers)
        is_current = state == "training" and self._is_current(now)
        ended = end[2] if end else time.time()
        found = {
            "version": VERSION,
            "time": time.time(),
            "job": self._described(),
            "state": state,
            "cause": end[1] if end else None,
            "start_time": self._start,
            "elapsed_secs": ended - self._start,
            **_of_progress(progress, self._job.last_step, is_current),
            "loss_rise": None if progress is None else progress.loss_rise,
            "metrics": whole,
            "slices": _listed(self._job.eval_by, slices),
            **{gauge.key: None for gauge in self.displays.every("gauges") if "." not in gauge.key},
            **_of_counters(counters),
            "step_time": self.tasks.step_times(now),
            "ps": [{**ps, "measured_network": self._network.get(ps["task"])} for ps in self.tasks.ps(now)],
            "workers": workers,
            "save": saves,
            "side_work": _failing(),
            "events": [vars(event) for event in _told_once(self._recorder.events())],
            "log": self._recorder.lines(),
        }
        self.tasks.complete(found, now)
        if found["state"] == "training" or self._health is None:
            exempt = [rule for display in self.displays for rule in display.exempt]
            self._health = findings(found, self._job, exempt)
            self._warn_of_rise(self._health)
        found["health"] = self._health  # after the training the judgement of its last moment stays
        return found

    def _warn_of_rise(self, health: Iterable[Mapping[str, Any]]) -> None:
        """Logs once, while the job can still be stopped, that its loss rises under stale gradients."""
        found = [each for each in health if each["rule"] == LOSS_RISE and each["state"] == "warn"]
        if found and not self._has_warned:
            self._has_warned = True
            log.warning("%s", warning(found[0]), extra=of_kind("warned"))

    def history(self) -> dict[str, Any]:
        """Returns the content of /api/history."""
        field = self._job.eval_by
        found = self._evaluations.read().items()
        evaluations = [{"step": step, "metrics": split_slices(metrics, field)[0]} for step, metrics in found]
        return {"version": VERSION, "points": self._history.points(), "evaluations": evaluations}

    def _described(self) -> dict[str, Any]:
        job = self._job
        of_tasks = {"num_ps": self.tasks.num_ps, "num_workers": self.tasks.num_workers}
        of_job = {"model": job.model, "update": job.update, "model_dir": job.model_dir, "batch_size": job.batch_size}
        return {**of_job, **of_tasks, "ps_train": __version__, "tensorflow": tf.__version__}

    def _is_current(self, now: float) -> bool:
        """Returns whether the rates of the last progress hold: a job that makes no steps reports no progress."""
        with self._lock:
            progress, at = self._progress, self._progress_at
        step_secs = 1 / progress.steps_per_sec if progress is not None and progress.steps_per_sec > 0 else 0.0
        return now - at <= max(_STALL_SECS, _STALL_REPORTS * max(self._job.log_secs, step_secs))

    def _state(self, workers: list[dict[str, Any]]) -> str:
        if self._is_finishing:
            return "finishing"
        own = next((worker["state"] for worker in workers if worker["task"] == self._chief), TaskState.STARTING)
        if own.startswith(WAITING_FOR):
            return "starting" if self._progress is None else "recovering"
        return _STATES.get(own, "training")


def _failing() -> dict[str, dict[str, Any]]:
    """Returns the work beside training that fails, by its name."""
    now = time.monotonic()
    return {name: {"secs": now - one.since, "reason": one.reason} for name, one in side_work.failing().items()}


def _told_once(events: Iterable[Event]) -> list[Event]:
    """Returns the events without those that several tasks tell: each worker sees that a ps is lost, and is back."""
    kept: list[Event] = []
    seen: dict[tuple[str, str, str], float] = {}
    for event in events:
        key = event.kind, event.task, event.text
        if event.kind not in ("lost", "restarted") or event.time - seen.get(key, float("-inf")) > _SAME_SECS:
            kept.append(event)
            seen[key] = event.time
    return kept


def _listed(field: str, slices: Mapping[str, Mapping[str, float]]) -> dict[str, Any] | None:
    """Returns the metrics of slices in their order; None without slices."""
    rows = [{"value": value, "metrics": metrics} for value, metrics in slices.items()]
    return {"field": field, "rows": rows} if rows else None


def _of_progress(progress: Progress | None, last: int | None, is_current: bool) -> dict[str, Any]:
    if progress is None:
        names = ("step", "loss", "steps_per_sec", "examples_per_sec", "eta_secs")
        return {"max_steps": last, **dict.fromkeys(names)}
    left = None if last is None else max(0, last - progress.step)
    is_predicted = left is not None and progress.steps_per_sec > 0 and is_current
    return {
        "max_steps": last,
        "step": progress.step,
        "loss": progress.loss,
        "steps_per_sec": progress.steps_per_sec if is_current else None,
        "examples_per_sec": progress.examples_per_sec if is_current else None,
        "eta_secs": left / progress.steps_per_sec if is_predicted and left is not None else None,
    }


def _of_counters(counters: RunCounterValues | None) -> dict[str, Any]:
    if counters is None:
        return dict.fromkeys(("skipped", "dropped", "staleness", "waiting"))
    return {
        "skipped": int(counters.skipped),
        "dropped": int(counters.dropped),
        **counters.shown(),
        "staleness": counters.staleness_report(),
        "waiting": counters.waiting_report(),
    }
