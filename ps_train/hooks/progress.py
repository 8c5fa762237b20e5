"""The chief's progress: one line on the console and one point in the event files, every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.console import Progress
from ps_train.hooks.reading import Reading
from ps_train.updates.staleness import summary


class ProgressHook(v1.train.SessionRunHook):
    """Args: `show` is given a Progress; `model_dir` is where the event files go."""

    def __init__(
        self,
        reading: Reading,
        max_steps: int,
        every_secs: float,
        show: Callable[[Progress], None],
        model_dir: str,
        shows_staleness: bool = False,
    ) -> None:
        self._reading, self._max_steps, self._every_secs, self._show = reading, max_steps, every_secs, show
        self._model_dir = model_dir
        self._shows_staleness = shows_staleness
        self.loss: float | None = None

    def after_create_session(self, session: Any, coord: Any) -> None:
        with tf.Graph().as_default():
            self._writer = v1.summary.FileWriter(self._model_dir)
        self._last: tuple[float, int, float] | None = None

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        return self._reading.args()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        read = run_values.results
        now, step, examples = time.monotonic(), int(read["step"]), float(read["examples"])
        self.loss = float(read["loss"]) if "loss" in read else self.loss
        if self._last is None:
            self._last = (now, step, examples)
        elapsed = now - self._last[0]
        if elapsed < self._every_secs and step < self._max_steps:
            return
        if elapsed > 0:
            rates = (step - self._last[1]) / elapsed, (examples - self._last[2]) / elapsed
            stale = summary(read["staleness"])
            mean = stale["mean"] if self._shows_staleness else None
            self._report(Progress(step, self._max_steps, self.loss, *rates, mean), stale)
        self._last = (now, step, examples)

    def end(self, session: Any) -> None:
        self._writer.close()

    def _report(self, progress: Progress, stale: Mapping[str, Any]) -> None:
        self._show(progress)
        values = {"global_steps_per_sec": progress.steps_per_sec, "examples_per_sec": progress.examples_per_sec}
        if progress.loss is not None:
            values["loss"] = progress.loss
        if self._shows_staleness:
            values |= {f"staleness/{name}": stale[name] for name in ("mean", "p95", "max", "conflict_rate")}
        summary = v1.Summary(value=[v1.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
        self._writer.add_summary(summary, progress.step)
        self._writer.flush()
