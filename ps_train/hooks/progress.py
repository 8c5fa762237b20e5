"""The chief's progress: one line on the console every few seconds, and a point in the event files with it at first.

Points come further apart as a run grows (`interval.py`): with its histograms one takes a kilobyte and more.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config.job import Job
from ps_train.hooks.counters import RunCounterValues
from ps_train.hooks.fetches import StepFetches
from ps_train.hooks.interval import SummaryInterval
from ps_train.runtime.console import Progress


class ProgressHook(v1.train.SessionRunHook):
    """Args: `tally_of` makes a Tally of what was fetched; `show` is given a Progress; `model_dir` is where the event
    files go.

    Attributes:
      step: the last that was observed.
    """

    def __init__(
        self,
        reading: StepFetches,
        job: Job,
        tally_of: Callable[..., RunCounterValues],
        show: Callable[[Progress], None],
        model_dir: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reading, self._job, self._tally_of, self._show = reading, job, tally_of, show
        self._model_dir, self._clock = model_dir, clock
        self._last: tuple[float, int, float] | None = None
        self._writer: Any = None
        self._interval, self._begun = SummaryInterval(job.log_secs), clock()
        self._written: float | None = None
        self._pending: Callable[[], None] | None = None
        self._one = threading.Lock()
        self.loss: float | None = None
        self.step = 0

    def resumed(self, step: int) -> None:
        """Training goes on at this step, which may be one of long ago."""
        self._last, self.step = None, step
        self._write_pending()  # before the mark: TensorBoard keeps of it what is not made again
        self._written = None
        if self._writer is not None:  # TensorBoard then forgets the points of the steps that will be made again
            self._writer.add_session_log(v1.SessionLog(status=v1.SessionLog.START), step)

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._writer is None:
            with tf.Graph().as_default():
                self._writer = v1.summary.FileWriter(self._model_dir)

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        return self._reading.args()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        read = dict(run_values.results)
        self.loss = float(read.pop("loss"))
        self.observe(int(read.pop("step")), read)

    def observe(self, step: int, counted: Mapping[str, Any]) -> None:
        """Reports if it is time.  `counted`: see `tally.tensors`."""
        self.step = step
        now, examples = self._clock(), float(counted["examples"])
        if self._last is None:
            self._last = (now, step, examples)
        elapsed = now - self._last[0]
        if elapsed < self._job.log_secs and step < self._job.max_steps:
            return
        if elapsed > 0 and step > self._last[1]:
            rates = (step - self._last[1]) / elapsed, (examples - self._last[2]) / elapsed
            self._report(step, rates, self._tally_of(**counted), now)
        self._last = (now, step, examples)

    def close(self) -> None:
        """Writes the last point if it is not written yet; from any thread, more than once."""
        self._write_pending()

    def _write_pending(self) -> None:
        with self._one:
            pending, self._pending = self._pending, None
            if pending is not None:
                pending()

    def _report(self, step: int, rates: tuple[float, float], tally: RunCounterValues, now: float) -> None:
        stale, waiting = tally.staleness_report(), tally.waiting_report()
        mean = stale["mean"] if stale else None
        share = waiting["share"] if waiting else None
        self._show(Progress(step, self._job.max_steps, self.loss, *rates, mean, share))
        values = {"global_steps_per_sec": rates[0], "examples_per_sec": rates[1]}
        if self.loss is not None:
            values["loss"] = self.loss
        with self._one:
            self._pending = functools.partial(self._write, step, values, stale, waiting)
        if self._is_due(now) or step >= self._job.max_steps:
            self._write_pending()
            self._written = now

    def _write(
        self, step: int, values: Mapping[str, float], stale: Mapping[str, Any] | None, waiting: Mapping[str, Any] | None
    ) -> None:
        points = [v1.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        points += _of_staleness(stale) if stale else []
        points += _of_waiting(waiting) if waiting else []
        self._writer.add_summary(v1.Summary(value=points), step)
        self._writer.flush()

    def _is_due(self, now: float) -> bool:
        return self._written is None or now - self._written >= self._interval.secs(now - self._begun)


def _of_staleness(report: Mapping[str, Any]) -> list[Any]:
    points = []
    for name, found in {"all": report, **report["per_worker"]}.items():
        for figure in ("mean", "p95", "max", "conflict_rate"):
            points.append(v1.Summary.Value(tag=f"staleness/{figure}/{name}", simple_value=found[figure]))
        points.append(v1.Summary.Value(tag=f"staleness/histogram/{name}", histo=_histogram(found["histogram"])))
    return points


def _of_waiting(report: Mapping[str, Any]) -> list[Any]:
    shares = {"all": report["share"], **report["per_worker"]}
    return [v1.Summary.Value(tag=f"waiting/{name}", simple_value=share) for name, share in shares.items()]


def _histogram(counts: Mapping[str, int]) -> Any:
    """Whole numbers and how often each was seen, as TensorBoard's histogram: a bucket ends at its limit."""
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
