"""The loss scale of a task (`--compute_dtype=float16`): its changes in the log, and its last value in the result."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.parts.loss_scaling import FIRST
from ps_train.training.duties.duty import Duty

log = logging.getLogger(__name__)


class LossScaleHook(v1.train.SessionRunHook):
    """A hook that logs the changes of a worker's loss scale.

    Args:
      scale: float32 scalar, the present one.
      task: the worker's name in the log.
    """

    def __init__(self, scale: tf.Tensor, task: str) -> None:
        self._scale, self._task, self._last = scale, task, FIRST

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Returns the fetch of the hook: the scale."""
        return v1.train.SessionRunArgs(self._scale)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Logs the fetched scale if it is another than the last one."""
        found = float(run_values.results)
        if found != self._last:
            log.info("%s: loss scale %g, before %g", self._task, found, self._last)
        self._last = found


class ScaledLoss(Duty):
    """The loss scale of this task (`--compute_dtype=float16`)."""

    def __init__(self, scale: tf.Tensor, task: str) -> None:
        self._scale, self.hooks = scale, [LossScaleHook(scale, task)]

    def facts(self, session: v1.Session) -> Mapping[str, float]:
        """Returns the last scale."""
        return {"loss_scale": float(session.run(self._scale))}
