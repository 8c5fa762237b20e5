"""Metrics of predictions: AUC, log-loss, calibration, and metrics within groups.

    def metrics(self, outputs, labels):
        return metrics.of_clicks(labels, logits=outputs)

The functions return `(value, update)` pairs like those of `tf.compat.v1.metrics`.  Their variables are sums over
examples, or the examples themselves (`row_buffer.py`), so those of several shards can be put together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.ranking import Ranked
from ps_train.modeling.row_buffer import RowBuffer, row_buffer

__all__ = [
    "auc",
    "calibration",
    "calibration_bins",
    "grouped_auc",
    "log_loss",
    "ndcg_at",
    "normalized_entropy",
    "of_clicks",
    "precision_at",
    "recall_at",
]

Metric = tuple[tf.Tensor, Any]

MAX_ROWS = 4_000_000
"""The most rows that a metric within groups keeps, 64 MB; beyond it keeps all rows of fewer groups."""

_BITS = 20
"""Number of a score's highest bits that AUC uses: sign, exponent, and 11 bits of the mantissa."""


def of_clicks(labels: tf.Tensor, logits: tf.Tensor, weights: Any = None) -> Mapping[str, Metric]:
    """Returns the metrics "auc", "log_loss" and "calibration".

    Args:
      labels: [batch], 0 or 1.
      logits: float32 [batch].
      weights: see `auc`.
    """
    return {
        "auc": auc(labels, logits, weights),
        "log_loss": log_loss(labels, logits, weights),
        "calibration": calibration(labels, tf.sigmoid(tf.cast(logits, tf.float32)), weights),
    }


def auc(labels: tf.Tensor, scores: tf.Tensor, weights: Any = None) -> Metric:
    """Returns the area under the ROC curve: the share of pairs whose positive example has the higher score.

    Scores are counted in 2^20 ordered buckets (16 MiB).  A bucket's width is less than 0.1 % of its scores, and two
    scores of one bucket count as equal.  `tf.compat.v1.metrics.auc` has only 200 thresholds between 0 and 1, too few if
    clicks are rare.

    Args:
      labels: [batch], 0 or 1.
      scores: float32 [batch], logits or other scores of the same order.  Probabilities are less suitable, because they
        are dense near 1.  A NaN makes the value NaN.
      weights: numbers of at least 0 by which the examples count, [batch] or a scalar; None: 1.
    """
    with v1.variable_scope(None, default_name="auc"):
        counts = [_sum(name, [1 << _BITS]) for name in ("negatives", "positives")]
    scores, labels = tf.cast(scores, tf.float32), tf.cast(labels, tf.float64)
    weight = _weights_like(labels, weights)
    weight = tf.where(tf.math.is_nan(scores), tf.constant(np.nan, tf.float64), weight)
    buckets = _buckets(scores)
    updates = []
    for count, added in zip(counts, (weight * (1 - labels), weight * labels), strict=True):
        updates.append(tf.raw_ops.ResourceScatterAdd(resource=count.handle, indices=buckets, updates=added))
    return _area(*(count.read_value() for count in counts)), tf.group(
        *updates
    )  # an update that returned the area would cost more than a batch


def log_loss(labels: tf.Tensor, logits: tf.Tensor, weights: Any = None) -> Metric:
    """Returns the mean cross-entropy between labels and predicted probabilities, in nats.

    Args:
      labels: [batch], 0 to 1.
      logits: float [batch].
      weights: see `auc`.
    """
    value, update, _ = _mean_loss("log_loss", labels, logits, weights)
    return value, update


def normalized_entropy(labels: tf.Tensor, logits: tf.Tensor, weights: Any = None) -> Metric:
    """Returns the log-loss over the entropy of the labels' mean (He et al. 2014).

    The value is 1 for a model that knows only this mean.

    Args:
      labels: [batch], 0 to 1.
      logits: float [batch].
      weights: see `auc`.

    Returns:
      The metric, whose value is 0 if all labels are 0 or all are 1.
    """
    loss, update, rate = _mean_loss("normalized_entropy", labels, logits, weights)
    entropy = -(tf.math.xlogy(rate, rate) + tf.math.xlogy(1 - rate, 1 - rate))
    return tf.math.divide_no_nan(loss, entropy), update


def calibration(labels: tf.Tensor, probabilities: tf.Tensor, weights: Any = None) -> Metric:
    """Returns the sum of predicted probabilities over the sum of labels: 1 if both sums are equal.

    Args:
      labels: [batch], 0 or 1.
      probabilities: float [batch].
      weights: see `auc`.
    """
    with v1.variable_scope(None, default_name="calibration"):
        predicted, observed = _sum("predicted", []), _sum("seen", [])
    value = tf.math.divide_no_nan(predicted.read_value(), observed.read_value())
    return value, tf.group(_add(predicted, probabilities, weights), _add(observed, labels, weights))


def calibration_bins(
    labels: tf.Tensor, probabilities: tf.Tensor, bins: int = 10, weights: Any = None
) -> Mapping[str, Metric]:
    """Returns the expected calibration error, and what it is made of.

    Bins of equal width divide the probabilities from 0 to 1.  A probability on a border belongs to the lower bin.

    Args:
      labels: [batch], 0 or 1.
      probabilities: float [batch].
      bins: number of bins.
      weights: see `auc`.

    Returns:
      "calibration_error": the mean over examples of the difference between the bin's mean probability and mean label
      (Naeini et al. 2015).  "bin_examples", "bin_predicted" and "bin_observed": the number of examples (the sum of
      their weights), the mean probability and the mean label of each bin, [bins]; 0 for an empty bin.
    """
    if bins < 1:
        raise ValueError(f"bins is {bins}: allowed are numbers from 1.")
    with v1.variable_scope(None, default_name="calibration_bins"):
        sums = [_sum(name, [bins]) for name in ("examples", "predicted", "observed")]
    probabilities = tf.reshape(tf.cast(probabilities, tf.float64), [-1])
    labels = tf.reshape(tf.cast(labels, tf.float64), [-1])
    weight = tf.reshape(_weights_like(labels, None if weights is None else tf.reshape(weights, [-1])), [-1])
    numbers = tf.searchsorted(np.linspace(0, 1, bins + 1)[1:-1], probabilities)
    updates = [
        tf.raw_ops.ResourceScatterAdd(resource=total.handle, indices=numbers, updates=added)
        for total, added in zip(sums, (weight, weight * probabilities, weight * labels), strict=True)
    ]
    examples, predicted, observed = (total.read_value() for total in sums)
    error = tf.math.divide_no_nan(tf.reduce_sum(tf.abs(predicted - observed)), tf.reduce_sum(examples))
    values = {
        "calibration_error": error,
        "bin_examples": examples,
        "bin_predicted": tf.math.divide_no_nan(predicted, examples),
        "bin_observed": tf.math.divide_no_nan(observed, examples),
    }
    update = tf.group(*updates)
    return {name: (value, update) for name, value in values.items()}


def grouped_auc(labels: tf.Tensor, scores: tf.Tensor, groups: tf.Tensor, max_rows: int = MAX_ROWS) -> Metric:
    """Returns the mean of the groups' areas under the ROC curve, weighted by their examples (GAUC; Zhou et al. 2018).

    Groups with labels of one class are left out.  The value is exact, and 0 if no group is left.  A score or label that
    is NaN makes the value NaN.

    The examples are kept, 16 bytes each.  Beyond `max_rows` whole groups are left out at random: the value is then
    that of a sample of the groups, and a warning says so.  It is NaN if groups are so
    large that none is left.

    Args:
      labels: [batch]; a label above 0 is positive.
      scores: [batch], of any scale; they are compared as float32.
      groups: [batch], the keys of the groups, such as users: whole numbers or strings.  Strings are known by 63 bits
        of a hash.
      max_rows: the most examples to keep.

    Raises:
      ValueError: an argument has a wrong dtype.
    """
    buffer = row_buffer(labels, scores, groups, max_rows)
    return buffer.value(lambda ranked: ranked.auc()), buffer.update


def precision_at(labels: tf.Tensor, scores: tf.Tensor, groups: tf.Tensor, k: int, max_rows: int = MAX_ROWS) -> Metric:
    """Returns the mean over groups of the share of positive examples among the k with the highest scores.

    All examples of a smaller group are taken.  Equal scores count as the mean over their orders.

    Args:
      labels: [batch]; see `grouped_auc`.
      scores: [batch]; see there.
      groups: [batch]; see there.
      k: number of examples.
      max_rows: see there.

    Raises:
      ValueError: an argument has a wrong dtype, or k is below 1.
    """
    return _at(k, row_buffer(labels, scores, groups, max_rows), lambda ranked: ranked.precision_at(k))


def recall_at(labels: tf.Tensor, scores: tf.Tensor, groups: tf.Tensor, k: int, max_rows: int = MAX_ROWS) -> Metric:
    """Returns the mean over groups of the share of the positive examples that are among the k with the highest scores.

    Groups without a positive example are left out.  Equal scores count as the mean over their orders.

    Args:
      labels: [batch]; see `grouped_auc`.
      scores: [batch]; see there.
      groups: [batch]; see there.
      k: number of examples.
      max_rows: see there.

    Raises:
      ValueError: an argument has a wrong dtype, or k is below 1.
    """
    return _at(k, row_buffer(labels, scores, groups, max_rows), lambda ranked: ranked.recall_at(k))


def ndcg_at(labels: tf.Tensor, scores: tf.Tensor, groups: tf.Tensor, k: int, max_rows: int = MAX_ROWS) -> Metric:
    """Returns the mean over groups of the normalized discounted cumulative gain of the k highest scores.

    The gain of an example is its label over log2(1 + rank).  Groups without a positive label are left out.  Equal
    scores count as the mean over their orders.

    Args:
      labels: [batch], relevance from 0.
      scores: [batch]; see `grouped_auc`.
      groups: [batch]; see there.
      k: number of examples.
      max_rows: see there.

    Raises:
      ValueError: an argument has a wrong dtype, or k is below 1.
    """
    return _at(k, row_buffer(labels, scores, groups, max_rows), lambda ranked: ranked.ndcg_at(k))


def _at(k: int, buffer: RowBuffer, metric: Callable[[Ranked], float]) -> Metric:
    if k < 1:
        raise ValueError(f"k is {k}: allowed are numbers from 1.")
    return buffer.value(metric), buffer.update


def _mean_loss(
    name: str, labels: tf.Tensor, logits: tf.Tensor, weights: Any
) -> tuple[tf.Tensor, tf.Operation, tf.Tensor]:
    """Returns the mean loss, its update, and the mean label."""
    with v1.variable_scope(None, default_name=name):
        loss, observed, examples = _sum("loss", []), _sum("observed", []), _sum("examples", [])
    labels, logits = tf.cast(labels, tf.float64), tf.cast(logits, tf.float64)
    # Two products, so that an infinite logit of the right sign costs nothing: TensorFlow's loss of it is NaN.
    of_ones, of_zeros = tf.math.softplus(-logits), tf.math.softplus(logits)
    losses = tf.math.multiply_no_nan(of_ones, labels) + tf.math.multiply_no_nan(of_zeros, 1 - labels)
    added = ((loss, losses), (observed, labels), (examples, tf.ones_like(losses)))
    update = tf.group(*(_add(total, values, weights) for total, values in added))
    mean, rate = (tf.math.divide_no_nan(one.read_value(), examples.read_value()) for one in (loss, observed))
    return mean, update, rate


def _add(total: Any, values: tf.Tensor, weights: Any) -> tf.Operation:
    values = tf.cast(values, tf.float64)
    weights = _weights_like(values, weights)
    values = tf.where(tf.math.is_inf(values) & tf.equal(weights, 0), tf.zeros_like(values), values * weights)
    return total.assign_add(tf.reduce_sum(values), read_value=False)


def _weights_like(values: tf.Tensor, weights: Any) -> tf.Tensor:
    """Returns the weights of values, float64 in their shape.  A vector of weights must not become a matrix."""
    if weights is None:
        return tf.ones_like(values, tf.float64)
    weights = tf.cast(weights, tf.float64)
    if None not in (weights.shape.rank, values.shape.rank) and weights.shape.rank not in (0, values.shape.rank):
        raise ValueError(f"weights has the shape {weights.shape}: use the labels' shape, {values.shape}, or a number.")
    return tf.broadcast_to(weights, tf.shape(values))


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
