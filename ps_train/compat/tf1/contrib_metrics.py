"""The functions of `tf.contrib.metrics`: metrics over many batches, whose predictions come before the labels.

    names, updates = aggregate_metric_map({"auc": contrib_metrics.streaming_auc(predictions, labels)})

Each is the metric of `tf.metrics` whose labels come first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

_SWAPPED = [
    "accuracy", "auc", "false_negatives", "false_negatives_at_thresholds", "false_positives",
    "false_positives_at_thresholds", "mean_absolute_error", "mean_cosine_distance", "mean_iou", "mean_relative_error",
    "mean_squared_error", "precision", "precision_at_thresholds", "recall", "recall_at_thresholds",
    "root_mean_squared_error", "sensitivity_at_specificity", "specificity_at_sensitivity", "true_negatives",
    "true_negatives_at_thresholds", "true_positives", "true_positives_at_thresholds",
]  # fmt: skip
_SWAPPED_UNDER_OTHER_NAMES = {
    "sparse_average_precision_at_k": "average_precision_at_k",
    "sparse_precision_at_k": "precision_at_k",
    "sparse_recall_at_k": "recall_at_k",
}
_SAME = ["mean", "mean_tensor"]


def _with_predictions_first(name: str, metric: Callable[..., Any]) -> Callable[..., Any]:
    def streaming(predictions: Any, labels: Any, *arguments: Any, **options: Any) -> Any:
        return metric(labels, predictions, *arguments, **options)

    streaming.__name__ = streaming.__qualname__ = f"streaming_{name}"
    streaming.__doc__ = f"Returns the metric of `tf.metrics.{metric.__name__}`, whose first argument is the labels."
    return streaming


def streaming_recall_at_k(
    predictions: Any,
    labels: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Returns the part of examples whose label is among the `k` largest predictions, and its update.

    Args:
      predictions: float [batch, classes].
      labels: int [batch], the class of each example.
      k: the number of predictions.
      weights: float [batch], of the examples.
      metrics_collections: that the value joins.
      updates_collections: that the update joins.
      name: of the variables' scope.
    """
    found = tf.cast(v1.nn.in_top_k(predictions, labels, k), tf.float32)
    return v1.metrics.mean(found, weights, metrics_collections, updates_collections, name or "recall_at_k")


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Any:
    """Returns the part of a batch's predictions that equal the labels; it keeps no variables.

    Args:
      predictions: of any shape and type of integers, texts or booleans.
      labels: of the same shape and type.
      weights: of the predictions; a weight of 0 leaves one out.
      name: of the operations.

    Raises:
      ValueError: the types differ.
    """
    predictions, labels = tf.convert_to_tensor(predictions), tf.convert_to_tensor(labels)
    if predictions.dtype != labels.dtype:
        raise ValueError(f"predictions of accuracy are {predictions.dtype.name}, and labels {labels.dtype.name}")
    with v1.name_scope(name, "accuracy", [predictions, labels]):
        is_right = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is None:
            return tf.reduce_mean(is_right)
        weights = tf.cast(weights, tf.float32) * tf.ones_like(is_right)
        return tf.math.divide_no_nan(tf.reduce_sum(is_right * weights), tf.reduce_sum(weights))


def aggregate_metrics(*value_update_tuples: tuple[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Returns the values and the updates of some metrics.

    Args:
      *value_update_tuples: a pair of value and update for each metric.

    Raises:
      ValueError: there are no metrics.
    """
    if not value_update_tuples:
        raise ValueError("aggregate_metrics got no metric: give at least one pair of value and update")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples: Mapping[str, tuple[Any, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the values of some metrics by name, and their updates by name.

    Args:
      names_to_tuples: name to value and update.
    """
    values, updates = aggregate_metrics(*names_to_tuples.values())
    return dict(zip(names_to_tuples, values, strict=True)), dict(zip(names_to_tuples, updates, strict=True))


METRICS: dict[str, Any] = {
    **{f"streaming_{name}": _with_predictions_first(name, getattr(v1.metrics, name)) for name in _SWAPPED},
    **{
        f"streaming_{name}": _with_predictions_first(name, getattr(v1.metrics, here))
        for name, here in _SWAPPED_UNDER_OTHER_NAMES.items()
    },
    **{f"streaming_{name}": getattr(v1.metrics, name) for name in _SAME},
    "streaming_percentage_less": v1.metrics.percentage_below,
    "streaming_recall_at_k": streaming_recall_at_k,
    "accuracy": accuracy,
    "aggregate_metric_map": aggregate_metric_map,
    "aggregate_metrics": aggregate_metrics,
    "confusion_matrix": v1.confusion_matrix,
}
"""The names of `tf.contrib.metrics`."""


def __getattr__(name: str) -> Any:
    """Returns one of these functions, which pickle looks for in this module."""
    try:
        return METRICS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
