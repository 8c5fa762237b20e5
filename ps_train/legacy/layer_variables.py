"""Variables, scopes and activations that the layers of TensorFlow 1 have in common.

with layer_scope(name, "dense", reuse):
    kernel = make_variable(options, "kernel", [3, 4], tf.float32)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1


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


def make_variable(options: Any, name: str, shape: Sequence[int], dtype: Any) -> Any:
    """Returns a variable of a layer.

    Args:
      options: has `NAME_initializer`, `NAME_regularizer`, `NAME_constraint` and `trainable`.
      name: of the variable.
      shape: of the variable.
      dtype: of the variable.
    """
    return v1.get_variable(
        name,
        shape,
        dtype,
        initializer=_made(getattr(options, f"{name}_initializer")),
        regularizer=getattr(options, f"{name}_regularizer"),
        constraint=getattr(options, f"{name}_constraint"),
        trainable=options.trainable,
    )


def activated(options: Any, outputs: Any) -> Any:
    """Returns the outputs after the layer's activation, whose penalty joins the regularization losses.

    Args:
      options: has `activation` and `activity_regularizer`.
      outputs: before the activation.
    """
    if options.activation is not None:
        outputs = options.activation(outputs)
    if options.activity_regularizer is not None:
        v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, options.activity_regularizer(outputs))
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


def _made(initializer: Any) -> Any:
    """Returns an initializer; a class is called, as `tf.get_variable` does."""
    return initializer() if isinstance(initializer, type) else initializer
