"""Many rows become one: combiners of multi-valued fields.

    combine(rows, segments, count, "mean", weights)     # float32 [count, dimension]

A bag without ids is all zeros; so is a mean whose weights add up to nothing.
"""

from __future__ import annotations

import tensorflow as tf

COMBINERS = ("sum", "mean", "sqrtn")


def combine(
    rows: tf.Tensor, segments: tf.Tensor, count: tf.Tensor, combiner: str, weights: tf.Tensor | None = None
) -> tf.Tensor:
    """The sums of the bags' weighted rows, over 1, the sum of the weights, or the root of the sum of their squares.

    Args:
      rows: float32 [n, dimension].
      segments: int64 [n], the bag of each row.
      count: how many bags.
      weights: float32 [n]; None: all 1.
    """
    sums = tf.math.unsorted_segment_sum(rows if weights is None else rows * weights[:, tf.newaxis], segments, count)
    if combiner == "sum":
        return sums
    if weights is None:
        weights = tf.ones(tf.shape(rows)[:1])
    squares = combiner == "sqrtn"
    norms = tf.math.unsorted_segment_sum(tf.square(weights) if squares else weights, segments, count)
    return tf.math.divide_no_nan(sums, (tf.sqrt(norms) if squares else norms)[:, tf.newaxis])
