"""A hook that logs a worker's loss scale when it has changed (--compute_dtype=float16)."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.runtime.loss_scale import FIRST

log = logging.getLogger(__name__)


def loss_scale_hooks(scale: tf.Tensor | None, task: str) -> list[v1.train.SessionRunHook]:
    """Returns the hook in a list, which is empty without a scale.

    Args:
      scale: float32 scalar, the present loss scale of the worker.
      task: the worker's name in the log.
    """
    return [] if scale is None else [LossScaleHook(scale, task)]


class LossScaleHook(v1.train.SessionRunHook):
    """The hook; its arguments are those of `loss_scale_hooks`."""

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
