"""Combiners of multi-valued fields: many rows become one.

    combine(rows, segments, count, "mean", weights)     # float32 [count, dimension]

A bag is the ids of one example.  A bag without ids gives zeros, and so does a mean whose weights add up to zero.
"""

from __future__ import annotations

import tensorflow as tf

COMBINERS = ("sum", "mean", "sqrtn")


def combine(
    rows: tf.Tensor, segments: tf.Tensor, count: tf.Tensor, combiner: str, weights: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns the combined row of each bag, float32 [count, dimension].

    It is the sum of the weighted rows, divided by 1 ("sum"), by the sum of the weights ("mean"), or by the root of the
    sum of their squares ("sqrtn").

    Args:
      rows: float32 [n, dimension].
      segments: int64 [n], the bag of each row.
      count: number of bags.
      combiner: one of COMBINERS.
      weights: float32 [n]; None means 1 for all.
    """
    sums = tf.math.unsorted_segment_sum(rows if weights is None else rows * weights[:, tf.newaxis], segments, count)
    if combiner == "sum":
        return sums
    if weights is None:
        weights = tf.ones(tf.shape(rows)[:1])
    squares = combiner == "sqrtn"
    norms = tf.math.unsorted_segment_sum(tf.square(weights) if squares else weights, segments, count)
    return tf.math.divide_no_nan(sums, (tf.sqrt(norms) if squares else norms)[:, tf.newaxis])
