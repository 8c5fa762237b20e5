"""Metrics of predicted probabilities: AUC, log-loss, calibration.

    def metrics(self, outputs, labels):
        return metrics.of_clicks(labels, logits=outputs)

`(value, update)` pairs like those of `tf.compat.v1.metrics`, of which everything is a sum: the sums of several shards
added up are those of all examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

Metric = tuple[tf.Tensor, Any]

_BITS = 20
"""Of a score's 32 bits AUC keeps the highest: sign, exponent, and eleven of its mantissa."""


def of_clicks(labels: tf.Tensor, logits: tf.Tensor) -> Mapping[str, Metric]:
    """auc, log_loss and calibration of `labels`, 0 or 1, and logits float32, both [batch]."""
    labels = tf.cast(labels, tf.float32)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return {
        "auc": auc(labels, logits),
        "log_loss": v1.metrics.mean(losses),
        "calibration": calibration(labels, tf.sigmoid(logits)),
    }


def auc(labels: tf.Tensor, scores: tf.Tensor) -> Metric:
    """The area under the ROC curve: how often a positive example has a higher score than a negative one.

    Scores are counted in 2^20 ordered buckets (16 MiB), each less than 0.1 % of its scores wide; two scores of one
    bucket count as equal.  (`tf.compat.v1.metrics.auc` has 200 thresholds between 0 and 1, too few where clicks are
    rare.)

    Args:
      labels: [batch], 0 or 1.
      scores: float32 [batch], logits or anything else of the same order; rather not probabilities, which lie densely
        near 1.
    """
    with v1.variable_scope(None, default_name="auc"):
        counts = [_sum(name, [1 << _BITS]) for name in ("negatives", "positives")]
    buckets = _buckets(scores)
    weights = tf.cast(tf.stack([1 - labels, labels]), tf.float64)
    updates = []
    for count, weight in zip(counts, tf.unstack(weights), strict=True):
        updates.append(tf.raw_ops.ResourceScatterAdd(resource=count.handle, indices=buckets, updates=weight))
    return _area(*(count.read_value() for count in counts)), tf.group(*updates)  # the area costs more than a batch


def calibration(labels: tf.Tensor, probabilities: tf.Tensor) -> Metric:
    """The sum of predicted probabilities over that of labels: 1 where, on the whole, as many clicks are
    predicted as there were."""
    with v1.variable_scope(None, default_name="calibration"):
        predicted, seen = _sum("predicted", []), _sum("seen", [])
    value = tf.math.divide_no_nan(predicted.read_value(), seen.read_value())
    with tf.control_dependencies(
        [
            predicted.assign_add(tf.reduce_sum(tf.cast(probabilities, tf.float64)), read_value=False),
            seen.assign_add(tf.reduce_sum(tf.cast(labels, tf.float64)), read_value=False),
        ]
    ):
        return value, tf.math.divide_no_nan(predicted.read_value(), seen.read_value())


def _buckets(scores: tf.Tensor) -> tf.Tensor:
    """int32, in the order of the scores: the bits of a float are, but for its sign, in the order of its values."""
    bits = tf.bitcast(tf.cast(scores, tf.float32), tf.int32)
    magnitude = tf.bitwise.bitwise_and(bits, 0x7FFFFFFF)
    ordered = tf.where(bits < 0, -magnitude, magnitude)
    return tf.bitwise.right_shift(ordered, 32 - _BITS) + (1 << (_BITS - 1))


def _area(negatives: tf.Tensor, positives: tf.Tensor) -> tf.Tensor:
    below = tf.cumsum(negatives, exclusive=True)
    pairs = tf.reduce_sum(positives) * tf.reduce_sum(negatives)
    return tf.math.divide_no_nan(tf.reduce_sum(positives * (below + negatives / 2)), pairs)


def _sum(name: str, shape: list[int]) -> Any:
    collections = [v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES]
    zeros = v1.zeros_initializer()
    return v1.get_variable(name, shape, tf.float64, zeros, trainable=False, collections=collections, use_resource=True)
