"""A kernel of TensorFlow that updates a whole variable in the place of a rule; see `rule_kernels.py`.

    done = Kernel(has_momentum=True, momentum=0.9).apply(variable, momentum, gradient, rate)

The module does not know which rules it may stand in for.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel with its numbers.

    Adam's kernel is none of them: it computes 1 - beta_2 in float32, so its second moment differs by 5e-5 from Keras's.

    Attributes:
      has_momentum: the variable has a slot `momentum`.
      momentum: factor of the slot.
      nesterov: the momentum is Nesterov's.
    """

    has_momentum: bool
    momentum: float = 0.0
    nesterov: bool = False

    def apply(self, variable: Any, momentum: Any, gradient: tf.Tensor, rate: tf.Tensor) -> tf.Operation:
        """Updates a variable and its slot, which is None if there is none."""
        rate = tf.cast(rate, gradient.dtype)
        if momentum is None:
            return tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=rate, delta=gradient)
        return tf.raw_ops.ResourceApplyKerasMomentum(
            var=variable.handle,
            accum=momentum.handle,
            lr=rate,
            grad=gradient,
            momentum=tf.cast(self.momentum, gradient.dtype),
            use_nesterov=self.nesterov,
        )
