"""Variables, scopes and activations that the layers of TensorFlow 1 have in common.

with layer_scope(name, "dense", reuse):
    kernel = make_variable("kernel", [3, 4], tf.float32, initializer)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

ZEROS = v1.zeros_initializer()
"""The default of biases, as in TensorFlow 1."""


def layer_scope(name: str | None, base: str, reuse: Any) -> Any:
    """Returns the variable scope of a layer: its name, or a new one such as `dense_1`.

    Args:
      name: of the layer; None for a new one.
      base: begin of a new name.
      reuse: whether its variables exist already.
    """
    if reuse and name is None:
        return v1.variable_scope(base, reuse=reuse)
    return v1.variable_scope(name, base, reuse=reuse)


def as_size(value: Any, name: str) -> int:
    """Returns a size as an integer, as TensorFlow 1 does: "64" of a flag or a file is 64.

    Args:
      value: a number, or the text of one.
      name: of the argument, for the error: `units of dense`.

    Raises:
      ValueError: the value is neither.
    """
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name}: {value!r} is not a whole number") from None


def make_variable(
    name: str,
    shape: Sequence[int],
    dtype: Any,
    initializer: Any,
    regularizer: Any = None,
    constraint: Any = None,
    trainable: bool = True,
) -> Any:
    """Returns a variable of a layer; an initializer that is a class is called, as `tf.get_variable` does."""
    return v1.get_variable(
        name,
        shape,
        dtype,
        initializer=initializer() if isinstance(initializer, type) else initializer,
        regularizer=regularizer,
        constraint=constraint,
        trainable=trainable,
    )


def activated(outputs: Any, activation: Any, activity_regularizer: Any) -> Any:
    """Returns the outputs after the layer's activation, whose penalty joins the regularization losses."""
    if activation is not None:
        outputs = activation(outputs)
    if activity_regularizer is not None:
        v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, activity_regularizer(outputs))
    return outputs


def when_training(training: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    """Returns one of two results.

    Args:
      training: a bool, a number, or a tensor of one.
      then: makes the result for training.
      otherwise: makes the other.
    """
    if isinstance(training, bool | int):
        return then() if training else otherwise()
    known = tf.get_static_value(training)
    if known is not None:
        return then() if known else otherwise()
    return v1.cond(tf.cast(training, tf.bool), then, otherwise)
