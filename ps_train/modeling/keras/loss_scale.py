"""The dynamic factor of the loss of a Keras LossScaleOptimizer.

    scale, counter = loss_scale.following(scale, counter, is_finite)

A worker multiplies the loss by the factor, and divides the gradients by it.  It makes no update where a gradient is
not finite.  The module does not know where the factor is kept.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class LossScale:
    """The state and the growth of a factor.

    Attributes:
      scale: the factor of the next step.
      counter: number of updates with finite gradients since it last changed.
      growth_steps: number of such updates after which it doubles.
    """

    scale: float
    counter: int
    growth_steps: int

    def following(self, scale: tf.Tensor, counter: tf.Tensor, is_finite: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the factor and the counter after a step.

        Args:
          scale: the factor of the step, float32.
          counter: the counter before it, an integer.
          is_finite: True if all gradients of the step are finite.
        """
        grows = tf.equal(counter, self.growth_steps - 1)
        after = tf.where(is_finite, tf.where(grows, scale * 2, scale), scale / 2)
        return after, tf.where(is_finite & ~grows, counter + 1, tf.zeros_like(counter))
