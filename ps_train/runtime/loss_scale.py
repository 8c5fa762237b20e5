"""Dynamic loss scaling, which keeps small gradients of float16 from becoming zero.

    scale = LossScale()                         # local variables of this worker
    gradients = tf.gradients(loss * scale.value, variables)
    gradients = unscale(gradients, scale.value)
    scale.update(overflow, is_good)             # to be run once in a step

Micikevicius et al. 2018, "Mixed Precision Training", section 3.2.  Every worker has its own scale, which begins at
FIRST.  An overflow halves the scale, and GOOD_STEPS steps in a row without one double it.  All scales are powers of
two, so scaling rounds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from ps_train.runtime.local_state import local_variable
from ps_train.runtime.precision import widen

LEAST, FIRST, MOST = 1.0, 2.0**15, 2.0**24
GOOD_STEPS = 2000


class LossScale:
    """The loss scale of a worker, in the default graph.

    Attributes:
      value: float32 scalar, the scale of this step.
      present: float32 scalar, the present scale, to be fetched.
    """

    def __init__(self) -> None:
        self._scale = local_variable("ps_train/loss_scale", [], value=FIRST)
        self._good_steps = local_variable("ps_train/good_steps", [], tf.int64)
        self.value = self._scale.read_value()
        self.present = self._scale.read_value()

    def update(self, overflow: tf.Tensor, is_good: tf.Tensor) -> tf.Operation:
        """Makes the operation that changes the scale for the next step.

        Args:
          overflow: bool scalar, True if a gradient was not finite because of the scale.
          is_good: bool scalar, True if loss and gradients were finite.  Neither is True if the loss was not finite.
        """
        count = self._good_steps.read_value() + tf.cast(is_good, tf.int64)
        grows = is_good & (count >= GOOD_STEPS)
        factor = tf.where(overflow, 0.5, tf.where(grows, 2.0, 1.0))
        scale = tf.clip_by_value(self.value * factor, LEAST, MOST)
        count = tf.where(overflow | grows, tf.zeros_like(count), count)
        return tf.group(self._scale.assign(scale, read_value=False), self._good_steps.assign(count, read_value=False))


def scaled(loss: tf.Tensor, scale: tf.Tensor | None) -> tf.Tensor:
    """Returns the loss times the scale; the loss itself without a scale."""
    return loss if scale is None else loss * tf.cast(scale, loss.dtype)


def unscale(gradients: Mapping[str, tf.Tensor], scale: tf.Tensor | None) -> dict[str, tf.Tensor]:
    """Returns the gradients divided by the scale; the same gradients without a scale."""
    if scale is None:
        return dict(gradients)

    def divided(gradient: tf.Tensor) -> tf.Tensor:
        wide = widen(gradient)
        return tf.cast(wide / tf.cast(scale, wide.dtype), gradient.dtype)

    return {name: divided(gradient) for name, gradient in gradients.items()}
