"""No number that is not finite leaves a worker.

What is checked are the vectors that are sent: one sum each, since a sum is finite only if all its terms are.  A vector
of a dtype below 32 bits is checked element by element: its sum would overflow, and to widen it would copy all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.gradients.precision import is_narrow, widen

NOT_FINITE = "the loss or a gradient is not a finite number"
"""Stands in the error that ends a worker's step before anything is sent."""


def stop_if_not_finite(loss: tf.Tensor, vectors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The same vectors, or an error in the run."""
    with tf.control_dependencies([tf.debugging.Assert(_finite(loss, vectors), [NOT_FINITE, loss])]):
        return [tf.identity(vector) for vector in vectors]


def skip_if_not_finite(
    loss: tf.Tensor, vectors: Sequence[tf.Tensor], otherwise: Sequence[np.ndarray[Any, Any]]
) -> list[tf.Tensor]:
    """The same vectors, or the others in their place."""
    finite = _finite(loss, vectors)
    return [tf.where(finite, vector, other) for vector, other in zip(vectors, otherwise, strict=True)]


def _finite(loss: tf.Tensor, vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Sums of different dtypes stay apart: a float64 may be finite where float32 is not."""
    narrow = [vector for vector in vectors if is_narrow(vector.dtype)]
    sums: dict[tf.DType, list[tf.Tensor]] = {}
    for one in [widen(loss), *[tf.reduce_sum(vector) for vector in vectors if not is_narrow(vector.dtype)]]:
        sums.setdefault(one.dtype, []).append(one)
    found = [tf.math.is_finite(tf.add_n(some)) for some in sums.values()]
    found += [tf.reduce_all(tf.math.is_finite(vector)) for vector in narrow]
    return tf.reduce_all(tf.stack(found)) if len(found) > 1 else found[0]
