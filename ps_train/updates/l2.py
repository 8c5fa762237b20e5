"""L2 regularization: the gradient of `strength / 2` times the sum of all squared weights.

The term is added to the gradient, not to the reported loss.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from ps_train.runtime.precision import widen
from ps_train.updates.transform import Gradients, Transform


def l2(strength: float) -> Transform:
    """Returns a transform that adds `strength` times the weights to the gradients."""

    def add(gradients: Mapping[str, tf.Tensor], values: Mapping[str, tf.Tensor]) -> Gradients:
        return {name: tf.cast(widen(g) + strength * widen(values[name]), g.dtype) for name, g in gradients.items()}

    return add
