"""What the hooks read of a step: always after its update, in the run that made it.

Not a hook itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import tensorflow as tf


@dataclasses.dataclass
class StepFetches:
    """The tensors that hooks may fetch now."""

    loss: tf.Tensor
    step: tf.Tensor
    others: Mapping[str, tf.Tensor] = dataclasses.field(default_factory=dict)

    def args(self) -> tf.compat.v1.train.SessionRunArgs:
        """For a hook's `before_run`; its `after_run` finds a dict of the same names in `run_values.results`."""
        return tf.compat.v1.train.SessionRunArgs({"step": self.step, "loss": self.loss, **self.others})
