"""Class weights, as weights of the examples.

with_class_weights((x, y), {0: 1.0, 1: 5.0})        # (x, y, weights of the examples)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from ps_train.base.errors import ConfigError


def check_class_weight(class_weight: Any, element_spec: Any) -> None:
    """Raises ConfigError for class weights that are not valid for batches of a spec."""
    is_valid = isinstance(class_weight, Mapping) and class_weight
    if not is_valid or not all(isinstance(key, int) and key >= 0 for key in map(_whole, class_weight)):
        raise ConfigError(
            f"class_weight={class_weight!r} (an argument of fit) is not a dict from the numbers of classes to weights: "
            "use such as {0: 1.0, 1: 5.0}."
        )
    if not isinstance(element_spec, tuple) or len(element_spec) not in (2, 3):
        raise ConfigError("class_weight (an argument of fit) needs labels, and the data have none: give y.")
    if not isinstance(element_spec[1], tf.TensorSpec):
        raise ConfigError("class_weight (an argument of fit) is for one output: give sample_weight for several.")


def _whole(key: Any) -> Any:
    return int(key) if hasattr(key, "__index__") else key


def spec_with_weights(element_spec: Any) -> Any:
    """Returns the spec of what `with_class_weights` makes of a batch."""
    x, y = element_spec[:2]
    shape = y.shape[:-1] if y.shape.rank is not None and y.shape.rank > 1 else y.shape
    return x, y, tf.TensorSpec(shape, keras.config.floatx())


def with_class_weights(batch: Any, class_weight: Mapping[int, float]) -> Any:
    """Returns (x, y, weights): the weight of each example's class, times the example's own weight if it has one.

    Args:
      batch: (x, y) or (x, y, sample_weight); labels are numbers of classes [n] or [n, 1], or one-hot [n, classes].
      class_weight: the weights; 1 for a class without one.
    """
    x, y, *own = batch
    if y.shape.rank is not None and y.shape.rank > 1:
        classes = tf.squeeze(y, -1) if y.shape[-1] == 1 else tf.argmax(y, -1)
    else:
        classes = y
    if classes.dtype.is_floating:
        classes = tf.round(classes)
    classes = tf.cast(classes, tf.int64)
    table = [class_weight.get(number, 1.0) for number in range(max(map(int, class_weight)) + 2)]
    known = tf.clip_by_value(classes, -1, len(table) - 1)  # the last place is of classes without a weight
    places = tf.where(known < 0, tf.cast(len(table) - 1, tf.int64), known)
    weights = tf.gather(tf.constant(table, keras.config.floatx()), places)
    if own:
        factor = tf.cast(own[0], weights.dtype)
        weights = weights * (tf.squeeze(factor, -1) if factor.shape.rank == 2 else factor)
    return x, y, weights
