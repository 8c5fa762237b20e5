"""Stops the job when the loss is no longer a finite number, before a checkpoint of it is written."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from ps_train.errors import DivergedError
from ps_train.hooks.reading import Reading


class FiniteHook(tf.compat.v1.train.SessionRunHook):
    def __init__(self, reading: Reading, task: str) -> None:
        self._reading, self._task = reading, task

    def before_run(self, run_context: Any) -> tf.compat.v1.train.SessionRunArgs:
        return self._reading.args()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        loss = run_values.results.get("loss")
        if loss is not None and not math.isfinite(loss):
            raise DivergedError(
                f"the loss of {self._task} is {loss} at global step {run_values.results['step']}: "
                "use a smaller learning_rate; the last checkpoint is from before."
            )
