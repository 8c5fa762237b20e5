"""The chief's progress: a line on the console every few seconds, and points in the event files.

Each line has a point at first.  Later points are further apart, because a point with its histograms
takes more than a kilobyte.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base import side_work
from ps_train.base.console import Progress
from ps_train.config.job import Job
from ps_train.engine.updates.counters.counter_values import RunCounterValues
from ps_train.observe.progress.loss_trend import LossTrend

log = logging.getLogger(__name__)


_DENSE_SECS = 300.0
_SPARSE_SECS = 10.0
_SHARE = 1 / 300
"""Interval over elapsed time; a constant share keeps the shape of a curve at every scale."""


def _interval_secs(min_secs: float, elapsed: float) -> float:
    """Returns the seconds between points, never less than `min_secs`, `elapsed` seconds after the begin of the run."""
    return min_secs if elapsed < _DENSE_SECS else max(min_secs, _SPARSE_SECS, elapsed * _SHARE)


class EventFile:
    """The event file of a run, for TensorBoard.  Any thread may write; the file begins with the first session.

    A disk that refuses it is no reason to end the training: the point is lost, and the next one begins a new file.

    Args:
      directory: the model directory.
      texts: tag to text in Markdown, written when the file is opened.
    """

    def __init__(self, directory: str, texts: Mapping[str, str] | None = None) -> None:
        self._directory, self._texts = directory, dict(texts or {})
        self._writer: Any = None
        self._was_begun = self._is_refused = False
        self._writing = threading.Lock()

    def begin(self, step: int) -> None:
        """Opens the file, or goes on with it at a step: points of later steps that it has are made again."""
        if not self._was_begun:
            self._was_begun = True
            self.add(v1.Summary(value=[_text_point(tag, text) for tag, text in self._texts.items()]), step)
        elif self._writer is not None:  # TensorBoard discards the points of the steps that are repeated
            self._writer.add_session_log(v1.SessionLog(status=v1.SessionLog.START), step)

    def add(self, summary: Any, step: int) -> None:
        """Writes a summary at a step."""
        with self._writing:
            try:
                if self._writer is None:
                    self._writer = self._new_writer()
                self._writer.add_summary(summary, step)
                self._writer.flush()
                self._is_refused = False
                side_work.works("event file", is_told=True)
            except (RuntimeError, OSError, tf.errors.OpError) as error:  # TensorFlow's writer raises all of them
                self._writer = None
                side_work.failed("event file", str(error).splitlines()[0], is_told=True)
                if not self._is_refused:
                    log.warning(
                        "the event file in %s could not be written: %s", self._directory, str(error).splitlines()[0]
                    )
                self._is_refused = True

    def add_values(self, values: Mapping[str, float], step: int) -> None:
        """Writes numbers by tag at a step."""
        self.add(v1.Summary(value=[v1.Summary.Value(tag=t, simple_value=v) for t, v in values.items()]), step)

    def _new_writer(self) -> Any:
        with tf.Graph().as_default():
            return v1.summary.FileWriter(self._directory)


class ProgressHook(v1.train.SessionRunHook):
    """A hook that reports the progress of training.

    Args:
      fetches: the tensors to fetch: "step", the global step after the update, "loss", and the counters by field of
        `RunCounterValues`.
      job: the job, for the interval and the last step.
      make_counters: makes the counters' values from the fetched ones, given by keyword.
      show: takes each `Progress` with the counters.
      file: gets the points.
      track: takes the numbers of each point by tag, with their step.
      clock: returns the time in seconds.

    Attributes:
      loss: the last fetched loss; None before the first.
      step: the last observed step.
    """

    def __init__(
        self,
        fetches: Mapping[str, Any],
        job: Job,
        make_counters: Callable[..., RunCounterValues],
        show: Callable[[Progress, RunCounterValues], None],
        file: EventFile,
        track: Callable[[int, Mapping[str, float]], None] = lambda step, values: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetches, self._job, self._make_counters, self._show = fetches, job, make_counters, show
        self._file, self._track, self._clock = file, track, clock
        self._last: tuple[float, int, float] | None = None
        self._start_time = clock()
        self._written: float | None = None
        self._pending: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self.loss: float | None = None
        self._trend = LossTrend()
        self.step = 0

    def resumed(self, step: int) -> None:
        """Continues at a step, which may be far before the last observed one."""
        self._last, self.step = None, step
        self._write_pending()  # before the START record: TensorBoard discards only the points of repeated steps
        self._written = None
        self._file.begin(step)

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Returns the fetches of the hook: loss, step and counters."""
        return v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Reports the fetched step if the interval is over."""
        results = dict(run_values.results)
        self.loss = float(results.pop("loss"))
        step = int(results.pop("step"))
        self._trend.add(step, self.loss)
        self.observe(step, results)

    def observe(self, step: int, counters: Mapping[str, Any]) -> None:
        """Reports a step if the interval is over.

        Args:
          step: the global step.
          counters: field name of `RunCounters` to value.
        """
        self.step = step
        now, examples = self._clock(), float(counters["examples"])
        if self._last is None:
            self._last = (now, step, examples)
        elapsed = now - self._last[0]
        if elapsed < self._job.log_secs and step < self._job.max_steps:
            return
        if elapsed > 0 and step > self._last[1]:
            rates = (step - self._last[1]) / elapsed, (examples - self._last[2]) / elapsed
            self._report(step, rates, self._make_counters(**counters), now)
        self._last = (now, step, examples)

    def close(self) -> None:
        """Writes the last point if it is not written yet.  Any thread may call this, several times."""
        self._write_pending()

    def _write_pending(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, None
            if pending is not None:
                pending()

    def _report(self, step: int, rates: tuple[float, float], counters: RunCounterValues, now: float) -> None:
        stale, waiting = counters.staleness_report(), counters.waiting_report()
        mean = stale["mean"] if stale else None
        share = waiting["share"] if waiting else None
        words = {gauge.word: gauge.shown(value) for gauge, value in counters.gauges.items() if gauge.word}
        rise = self._trend.rise()
        self._show(Progress(step, self._job.last_step, self.loss, *rates, mean, share, rise, words), counters)
        values = {"global_steps_per_sec": rates[0], "examples_per_sec": rates[1]}
        if self.loss is not None:
            values["loss"] = self.loss
        values |= {gauge.key: value for gauge, value in counters.gauges.items()}
        with self._lock:
            self._pending = functools.partial(self._write, step, values, stale, waiting)
        if self._is_due(now) or step >= self._job.max_steps:
            self._write_pending()
            self._written = now

    def _write(
        self, step: int, values: Mapping[str, float], stale: Mapping[str, Any] | None, waiting: Mapping[str, Any] | None
    ) -> None:
        points = [v1.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        points += _staleness_points(stale) if stale else []
        points += _waiting_points(waiting) if waiting else []
        self._file.add(v1.Summary(value=points), step)
        self._track(step, {point.tag: point.simple_value for point in points if point.HasField("simple_value")})

    def _is_due(self, now: float) -> bool:
        elapsed = now - self._start_time
        return self._written is None or now - self._written >= _interval_secs(self._job.log_secs, elapsed)


def _text_point(tag: str, text: str) -> Any:
    """Returns a text for TensorBoard's text dashboard."""
    metadata = v1.SummaryMetadata(plugin_data=v1.SummaryMetadata.PluginData(plugin_name="text"))
    return v1.Summary.Value(tag=tag, metadata=metadata, tensor=tf.make_tensor_proto([text], tf.string))


def _staleness_points(report: Mapping[str, Any]) -> list[Any]:
    points = []
    for name, summary in {"all": report, **report["per_worker"]}.items():
        for figure in ("mean", "p95", "max", "conflict_rate"):
            points.append(v1.Summary.Value(tag=f"staleness/{figure}/{name}", simple_value=summary[figure]))
        points.append(v1.Summary.Value(tag=f"staleness/histogram/{name}", histo=_histogram(summary["histogram"])))
    return points


def _waiting_points(report: Mapping[str, Any]) -> list[Any]:
    shares = {"all": report["share"], **report["per_worker"]}
    return [v1.Summary.Value(tag=f"waiting/{name}", simple_value=share) for name, share in shares.items()]


def _histogram(counts: Mapping[str, int]) -> Any:
    """Returns TensorBoard's histogram of integers; a bucket ends at its limit.

    Args:
      counts: integer as text to its number of occurrences.
    """
    values, times = np.array([int(value) for value in counts] or [0]), np.array(list(counts.values()) or [0])
    return v1.HistogramProto(
        min=values.min(),
        max=values.max(),
        num=times.sum(),
        sum=values @ times,
        sum_squares=values**2 @ times,
        bucket_limit=values + 0.5,
        bucket=times,
    )
