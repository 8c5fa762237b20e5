"""Metrics of predicted probabilities: AUC, log-loss, calibration.

    def metrics(self, outputs, labels):
        return metrics.of_clicks(labels, logits=outputs)

The functions return `(value, update)` pairs like those of `tf.compat.v1.metrics`.  All their variables are sums over
examples, so the sums of several shards can be added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

__all__ = ["auc", "calibration", "of_clicks"]

Metric = tuple[tf.Tensor, Any]

_BITS = 20
"""Number of a score's highest bits that AUC uses: sign, exponent, and 11 bits of the mantissa."""


def of_clicks(labels: tf.Tensor, logits: tf.Tensor) -> Mapping[str, Metric]:
    """Returns the metrics "auc", "log_loss" and "calibration".

    Args:
      labels: [batch], 0 or 1.
      logits: float32 [batch].
    """
    labels = tf.cast(labels, tf.float32)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return {
        "auc": auc(labels, logits),
        "log_loss": v1.metrics.mean(losses),
        "calibration": calibration(labels, tf.sigmoid(logits)),
    }


def auc(labels: tf.Tensor, scores: tf.Tensor) -> Metric:
    """Returns the area under the ROC curve: the share of pairs whose positive example has the higher score.

    Scores are counted in 2^20 ordered buckets (16 MiB).  A bucket's width is less than 0.1 % of its scores, and two
    scores of one bucket count as equal.  `tf.compat.v1.metrics.auc` has only 200 thresholds between 0 and 1, too few if
    clicks are rare.

    Args:
      labels: [batch], 0 or 1.
      scores: float32 [batch], logits or other scores of the same order.  Probabilities are less suitable, because they
        are dense near 1.
    """
    with v1.variable_scope(None, default_name="auc"):
        counts = [_sum(name, [1 << _BITS]) for name in ("negatives", "positives")]
    buckets = _buckets(scores)
    weights = tf.cast(tf.stack([1 - labels, labels]), tf.float64)
    updates = []
    for count, weight in zip(counts, tf.unstack(weights), strict=True):
        updates.append(tf.raw_ops.ResourceScatterAdd(resource=count.handle, indices=buckets, updates=weight))
    return _area(*(count.read_value() for count in counts)), tf.group(
        *updates
    )  # an update that returned the area would cost more than a batch


def calibration(labels: tf.Tensor, probabilities: tf.Tensor) -> Metric:
    """Returns the sum of predicted probabilities over the sum of labels: 1 if both sums are equal.

    Args:
      labels: [batch], 0 or 1.
      probabilities: float [batch].
    """
    with v1.variable_scope(None, default_name="calibration"):
        predicted, observed = _sum("predicted", []), _sum("seen", [])
    value = tf.math.divide_no_nan(predicted.read_value(), observed.read_value())
    with tf.control_dependencies(
        [
            predicted.assign_add(tf.reduce_sum(tf.cast(probabilities, tf.float64)), read_value=False),
            observed.assign_add(tf.reduce_sum(tf.cast(labels, tf.float64)), read_value=False),
        ]
    ):
        return value, tf.math.divide_no_nan(predicted.read_value(), observed.read_value())


def _buckets(scores: tf.Tensor) -> tf.Tensor:
    """Returns bucket numbers, int32 [batch], in the order of the scores.

    The bits of non-negative floats, read as integers, have the order of the floats.
    """
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
