"""The part of a step whose learning rate grows at the start of a job (--warmup_steps).

    divisor = WarmUp(100).divisor(examples, count)      # 100.0 at the first update, 1.0 from the 100th on

The rate of update n is n/steps of the whole rate, as in Goyal et al. 2017, "Accurate, Large Minibatch SGD".  Each ps
counts by itself, so the part needs no message.  It knows no optimizer: the divided rate goes to the model's.
"""

from __future__ import annotations

import tensorflow as tf

from ps_train.engine.step.parts.step_part import MakeUpdate, StepPart, ToUpdate, Updated


class WarmUp(StepPart):
    """A learning rate that grows evenly.

    Args:
      steps: updates up to the first one with the whole rate.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def update(self, update: MakeUpdate) -> MakeUpdate:
        """Divides the learning rate of the first updates."""

        def updated(given: ToUpdate) -> Updated:
            return update(given.with_rate_divisor(self.divisor))

        return updated

    def divisor(self, examples: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """Returns the divisor of the learning rate of the update after so many others, at least 1."""
        return tf.maximum(1.0, self._steps / (tf.cast(count, tf.float32) + 1.0))
