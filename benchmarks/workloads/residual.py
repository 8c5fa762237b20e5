"""Dense residual layers: deep, and yet they learn within a few hundred steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf


def residual_layers(features: tf.Tensor, width: int, count: int) -> tf.Tensor:
    """features [batch, width] plus what each of `count` rectified layers adds; the sum of all is of the size of one."""
    import tensorflow as tf

    from ps_train.models.layers import dense

    for number in range(count):
        features += count**-0.5 * tf.nn.relu(dense(features, width, f"layer{number}"))
    return features
