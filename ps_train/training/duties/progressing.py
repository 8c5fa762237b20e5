"""The chief's progress: the console, the status page, event files, experiment trackers."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.console import Progress
from ps_train.engine.step.summaries import summaries_of
from ps_train.engine.updates.counters.counter_values import RunCounterValues, counter_tensors
from ps_train.observe.progress.progress import EventFile, ProgressHook
from ps_train.observe.progress.summaries import SummaryHook
from ps_train.observe.status.result import RunSummary
from ps_train.observe.tracking.tracked_run import TrackedRun, source_file_of, tracked_run
from ps_train.observe.tracking.tracking import END_SECS, STOPPED_SECS, Tracking
from ps_train.training.duties.duty import Bursts, Duty, End, Setting, Start
from ps_train.training.duties.saving import Saving
from ps_train.training.joining.join import JoinedAsChief


def counted(setting: Setting) -> dict[str, Any]:
    """Returns tensors with the present counters of the run, and with the values that parts of the step show."""
    return {**counter_tensors(setting.step.ps.counters), "gauges": setting.step.gauges()}


class _Begun(NamedTuple):
    """Where this process began: the time in seconds of a monotonic clock, the global step, and the examples used."""

    time: float
    step: int
    examples: float


class Progressing(Duty):
    """The progress of the whole job.

    Args:
      setting: what duties are made of.
      joined: the connections of the chief.
      saving: tells the last checkpoint.
      file: the event file, which gets a point from time to time, and the metrics of the test data.
      tracking: the same for an experiment tracker.

    Attributes:
      fetches: what its hook fetches in each step.
    """

    def __init__(
        self, setting: Setting, joined: JoinedAsChief, saving: Saving, file: EventFile, tracking: Tracking
    ) -> None:
        job, agreed, step = setting.prepared.job, setting.agreed, setting.step
        self._console, self._observer, self._saving = setting.console, joined.observer, saving
        self._file, self._tracking = file, tracking
        self._now_counted, self._global_step = counted(setting), step.ps.global_step
        with tf.control_dependencies([step.ops.step_after]):
            self.fetches = {"step": step.ops.step_after, "loss": step.worker.loss, **counted(setting)}
        self._counters_at = functools.partial(RunCounterValues, job.update, list(agreed.pushers), agreed.declared)
        self._hook = ProgressHook(self.fetches, job, self._counters_at, self._show, file, tracking.add)
        self.hooks = [self._hook]
        self._begun: _Begun | None = None

    def _show(self, progress: Progress, counters: RunCounterValues) -> None:
        self._console.progress(progress.text())
        self._observer.board.progress(progress, counters, self._saving.shown())

    def opened(self, session: v1.Session, start: Start) -> None:
        """Goes on at the step of the session; the clock of the training starts with the first one."""
        if self._begun is None:
            examples = float(session.run(self._now_counted["examples"]))
            self._begun = _Begun(time.monotonic(), start.step, examples)
        self._hook.resumed(start.step)

    def waiting(self, session: v1.Session) -> None:
        """Shows the progress while only other tasks train, and has due checkpoints taken."""
        step, counters = self._read(session)
        self._hook.observe(step, counters)
        self._saving.observe(step, session)

    def _read(self, session: v1.Session) -> tuple[int, Mapping[str, Any]]:
        """Returns the global step and the counters, as they are now."""
        step, counters = session.run([self._global_step, self._now_counted])
        return int(step), counters

    def summary(self, session: v1.Session) -> RunSummary:
        """Returns what the run has made so far, without scores."""
        begun = self._begun
        assert begun is not None, "a session was opened"
        wall_secs = time.monotonic() - begun.time
        step, counted = self._read(session)
        counters = self._counters_at(**counted)
        return RunSummary(
            step=step,
            steps_made=step - begun.step,
            examples_made=float(counters.examples) - begun.examples,
            wall_secs=wall_secs,
            loss=self._hook.loss,
            counters=counters,
        )

    def add_scores(self, step: int, metrics: Mapping[str, float]) -> None:
        """Writes metrics of the test data, by name, into the event file and the tracker."""
        values = {f"test/{name}": value for name, value in metrics.items()}
        self._tracking.add(step, values)
        self._file.add_values(values, step)

    @property
    def step(self) -> int:
        """The last global step that was seen."""
        return self._hook.step

    @property
    def known_step(self) -> int | None:
        """The last global step that was seen; None before the first session."""
        return self._hook.step if self._begun is not None else None

    def ended(self, end: End) -> None:
        """Writes the last point, and shows the last checkpoint."""
        if self._begun is not None:
            self._hook.close()
            self._observer.board.saved(self._saving.shown())
        if end.state:
            self._observer.end(end.state, end.cause)


class TrackingRun(Duty):
    """The run in an experiment tracker (`--track`)."""

    def __init__(self, setting: Setting, joined: JoinedAsChief, tracking: Tracking) -> None:
        self._prepared, self._plan, self._directory = setting.prepared, setting.agreed.plan, joined.directory
        self._tracking, self._report = tracking, joined.observer.report

    def opened(self, session: v1.Session, start: Start) -> None:
        """Begins the run, once; it takes its time in a thread of its own."""
        self._tracking.begin(functools.partial(self._run_of, start.state.ready.run_id))

    def _run_of(self, run_id: str) -> TrackedRun:
        prepared = self._prepared
        found = prepared.variables.described(), self._directory, run_id, source_file_of(prepared.model)
        return tracked_run(prepared.job, self._plan, *found)

    def ended(self, end: End) -> None:
        """Tells the tracker the end."""
        if end.cause is not None:
            self._tracking.tag("cause", end.cause)
        if end.state:
            self._tracking.end(end.state, [self._report], STOPPED_SECS if end.state == "stopped" else END_SECS)


class ModelSummaries(Duty):
    """The model's own summaries in the event file (`--summary_steps`)."""

    def __init__(self, setting: Setting, step: tf.Tensor, file: EventFile) -> None:
        job = setting.prepared.job
        summaries = summaries_of(setting.step.graph) if job.summary_steps else []
        if summaries:
            self._hook = SummaryHook(summaries, job, step, lambda: setting.now.next_step, file)
            self.hooks, self.bursts = [self._hook], Bursts(ends=job.summary_steps)

    def opened(self, session: v1.Session, start: Start) -> None:
        """Goes on at the step of the session."""
        if self.hooks:
            self._hook.resumed(start.step)
