"""Labels of one dimension beside predictions of two, as Keras 2 took them.

    model.fit(x, y)             # y of shape (n,), predictions of shape (n, 10), and the loss "mse"

Keras 2 gave such labels a second dimension before its losses and metrics saw them.  Keras 3 does so only if the
predictions have one column, and else fails within the first step.
"""

from __future__ import annotations

import functools
from typing import Any

import keras
import tensorflow as tf

from ps_train.compat.distribute.replaced import Replaced


def install(replaced: Replaced) -> None:
    """Lets compiled losses and metrics take such labels.

    Args:
      replaced: gets the replaced attributes.
    """
    for method in ("compute_loss", "compute_metrics"):
        replaced.attribute(keras.Model, method, _taking_labels(getattr(keras.Model, method)))


def _taking_labels(own: Any) -> Any:
    @functools.wraps(own)
    def call(self: Any, x: Any = None, y: Any = None, y_pred: Any = None, *args: Any, **options: Any) -> Any:
        return own(self, x, with_rank_of(y, y_pred), y_pred, *args, **options)

    return call


def with_rank_of(labels: Any, predictions: Any) -> Any:
    """Returns labels, those of one dimension with a second one where the predictions have two.

    Args:
      labels: a tensor or a structure of tensors; None for none.
      predictions: a structure; where it is another one, the labels are returned as they are.
    """
    try:
        tf.nest.assert_same_structure(labels, predictions)
    except (TypeError, ValueError):
        return labels
    return tf.nest.map_structure(_with_rank, labels, predictions)


def _with_rank(label: Any, prediction: Any) -> Any:
    if not (tf.is_tensor(label) and tf.is_tensor(prediction)):
        return label
    return tf.expand_dims(label, -1) if (label.shape.rank, prediction.shape.rank) == (1, 2) else label
