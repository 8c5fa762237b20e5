"""The tensors that hooks fetch: read after a step's update, in the call that makes the update.

The module itself contains no hook.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import tensorflow as tf


@dataclasses.dataclass
class StepFetches:
    """The tensors that hooks fetch from one training graph.

    Attributes:
      loss: float scalar.
      step: int64 scalar, the global step after the update.
      counters: field name of `RunCounters` to tensor.
    """

    loss: tf.Tensor
    step: tf.Tensor
    counters: Mapping[str, tf.Tensor] = dataclasses.field(default_factory=dict)

    def args(self) -> tf.compat.v1.train.SessionRunArgs:
        """Returns the result for a hook's `before_run`: a dict with "step", "loss" and the counters.

        `after_run` finds the values under the same names in `run_values.results`.
        """
        return tf.compat.v1.train.SessionRunArgs({"step": self.step, "loss": self.loss, **self.counters})
