"""A scaled loss: small gradients of float16 stay above zero, and an overflow is skipped.

Micikevicius et al. 2018, "Mixed Precision Training".  Each worker has a scale of its own, which halves at an overflow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from ps_train.data.pipeline import Batches
from ps_train.engine.step.backward import Computed, PulledInputs
from ps_train.engine.step.parts.step_part import Compute, StepPart
from ps_train.engine.updates.gradients.push_guard import are_finite
from ps_train.engine.variables.precision import widen
from ps_train.engine.variables.worker_state import local_variable

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

    def scaled(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss times the scale."""
        return loss * tf.cast(self.value, loss.dtype)

    def unscaled(self, gradients: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the gradients divided by the scale."""

        def divided(gradient: tf.Tensor) -> tf.Tensor:
            wide = widen(gradient)
            return tf.cast(wide / tf.cast(self.value, wide.dtype), gradient.dtype)

        return {name: divided(gradient) for name, gradient in gradients.items()}

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


class LossScaling(StepPart):
    """The part of a step whose loss is scaled.

    Attributes:
      present: after `compute`, float32 scalar, the present scale of the worker.
    """

    present: tf.Tensor

    def compute(self, compute: Compute) -> Compute:
        """Differentiates the scaled loss, and changes the scale for the next step."""
        scale = LossScale()
        self.present = scale.present

        def computed(inputs: PulledInputs, batches: Batches) -> Computed:
            found = compute(dataclasses.replace(inputs, differentiated=scale.scaled), batches)
            return judged(dataclasses.replace(found, gradients=scale.unscaled(found.gradients)), scale)

        return computed


def judged(computed: Computed, scale: LossScale) -> Computed:
    """Returns the result of a step that skips its push after an overflow, and changes the scale.

    An overflow at the least scale, and a loss that is not finite, are subject to --on_nan.

    Args:
      computed: has the gradients as the model has them; transforms might hide an overflow.
      scale: the scale of this worker.
    """
    loss = computed.loss
    is_loss_finite, are_gradients_finite = tf.math.is_finite(loss), are_finite(list(computed.gradients.values()))
    overflow = is_loss_finite & ~are_gradients_finite
    updated = scale.update(overflow, is_loss_finite & are_gradients_finite)
    skipped = overflow & (scale.value > LEAST)
    return dataclasses.replace(
        computed,
        judged=tf.where(overflow & ~skipped, tf.constant(np.nan, loss.dtype), loss),
        skipped=[*computed.skipped, skipped],
        updates=[*computed.updates, updated],
    )
