"""Kernels of TensorFlow that update a whole variable in the place of a rule; see `rule_kernels.py`.

    kernel = AdamKernel(beta_1=0.9, beta_2=0.999, epsilon=1e-7)
    done = kernel.apply(variable, {"momentum": m, "velocity": v}, gradient, rate, iterations)

The module does not know which rules they may stand in for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class DescentKernel:
    """Gradient descent, with or without momentum.

    Attributes:
      has_momentum: the variable has a slot `momentum`.
      momentum: factor of the slot.
      nesterov: the momentum is Nesterov's.
    """

    has_momentum: bool
    momentum: float = 0.0
    nesterov: bool = False

    def apply(
        self, variable: Any, slots: Mapping[str, Any], gradient: tf.Tensor, rate: tf.Tensor, iterations: tf.Tensor
    ) -> tf.Operation:
        """Updates a variable and its slots.

        Args:
          variable: the variable.
          slots: name to slot.
          gradient: its gradient.
          rate: the learning rate.
          iterations: number of the updates before this one.
        """
        rate = tf.cast(rate, gradient.dtype)
        if not self.has_momentum:
            return tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=rate, delta=gradient)
        return tf.raw_ops.ResourceApplyKerasMomentum(
            var=variable.handle,
            accum=slots["momentum"].handle,
            lr=rate,
            grad=gradient,
            momentum=tf.cast(self.momentum, gradient.dtype),
            use_nesterov=self.nesterov,
        )


@dataclasses.dataclass(frozen=True)
class AdamKernel:
    """Adam.

    The kernel computes 1 - beta_2 in float32, which for 0.999 is off by up to 5e-5 of its value.  So it gets the
    neighbour of beta_2 that is off least, and a rate and an epsilon that make up for the rest: its second moment is
    then off by 1e-5 of its value, and the steps by less.
    """

    beta_1: float
    beta_2: float
    epsilon: float

    def apply(
        self, variable: Any, slots: Mapping[str, Any], gradient: tf.Tensor, rate: tf.Tensor, iterations: tf.Tensor
    ) -> tf.Operation:
        """Updates a variable and its slots; see `DescentKernel.apply`."""
        step = tf.cast(iterations + 1, tf.float32)
        beta_2, share = _neighbour(self.beta_2)
        root = np.sqrt(share)
        return tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=slots["momentum"].handle,
            v=slots["velocity"].handle,
            beta1_power=tf.pow(tf.constant(self.beta_1), step),
            beta2_power=tf.pow(tf.constant(self.beta_2), step),
            lr=tf.cast(rate, tf.float32) / np.float32(root),
            beta1=tf.constant(self.beta_1),
            beta2=tf.constant(beta_2),
            epsilon=tf.constant(self.epsilon / root, tf.float32),
            grad=gradient,
        )


def _neighbour(beta: float) -> tuple[np.float32, float]:
    """Returns the float32 beside a beta whose difference to 1 is nearest to that of beta, and the ratio of the two."""
    near = np.float32(beta)
    candidates = [near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(1))]
    best = min(candidates, key=lambda one: abs(float(np.float32(1) - one) - (1 - beta)))
    return best, (1 - beta) / float(np.float32(1) - best)


Kernel = DescentKernel | AdamKernel

KINDS: dict[str, type[Kernel]] = {"descent": DescentKernel, "adam": AdamKernel}
