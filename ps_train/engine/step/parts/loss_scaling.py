"""A scaled loss: small gradients of float16 stay above zero, and an overflow is skipped.

Micikevicius et al. 2018, "Mixed Precision Training".  Each worker has a scale of its own, which halves at an overflow.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from ps_train.data.pipeline import Batches
from ps_train.engine.step.backward import Computed, PulledInputs
from ps_train.engine.step.parts.step_part import Compute, StepPart
from ps_train.engine.updates.gradients.push_guard import are_finite
from ps_train.engine.variables.precision import LEAST, LossScale


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
