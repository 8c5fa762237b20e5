"""Layers that the shipped models share."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

__all__ = ["dense", "perceptron"]


def dense(inputs: tf.Tensor, units: int, name: str) -> tf.Tensor:
    """Returns `inputs` [batch, n] times new weights [n, units] plus a bias [units]: [batch, units].

    The result has the dtype of the weights: float32, or in training that of --compute_dtype.
    """
    with v1.variable_scope(name):
        weights = v1.get_variable("weights", [inputs.shape[1], units], initializer=v1.glorot_uniform_initializer())
        bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
    return tf.nn.bias_add(tf.matmul(tf.cast(inputs, weights.dtype), weights), bias)


def perceptron(inputs: tf.Tensor, hidden: Sequence[int], outputs: int) -> tf.Tensor:
    """Returns the outputs of a perceptron with rectified hidden layers, [batch, outputs], of the dtype of `dense`.

    Args:
      inputs: float32 [batch, n].
      hidden: units of each hidden layer.
      outputs: number of outputs.
    """
    for number, units in enumerate(hidden, start=1):
        inputs = tf.nn.relu(dense(inputs, units, f"hidden{number}"))
    return dense(inputs, outputs, "logits")
