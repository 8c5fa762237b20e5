"""No number that is not finite leaves a worker.

What is checked are the vectors that are sent: one sum each, since a sum is finite only if all its terms are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

NOT_FINITE = "the loss or a gradient is not a finite number"
"""Stands in the error that ends a worker's step before anything is sent."""


def stop(loss: tf.Tensor, vectors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The same vectors, or an error in the run."""
    with tf.control_dependencies([tf.debugging.Assert(_finite(loss, vectors), [NOT_FINITE, loss])]):
        return [tf.identity(vector) for vector in vectors]


def skip(loss: tf.Tensor, vectors: Sequence[tf.Tensor], otherwise: Sequence[np.ndarray[Any, Any]]) -> list[tf.Tensor]:
    """The same vectors, or the others in their place."""
    finite = _finite(loss, vectors)
    return [tf.where(finite, vector, other) for vector, other in zip(vectors, otherwise, strict=True)]


def _finite(loss: tf.Tensor, vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    sums = [tf.cast(tf.reduce_sum(vector), tf.float32) for vector in vectors]
    return tf.math.is_finite(tf.add_n([tf.cast(loss, tf.float32), *sums]))
