"""Layers that the shipped models share."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

__all__ = ["batch_norm", "convolution", "dense", "perceptron"]


def dense(inputs: tf.Tensor, units: int, name: str) -> tf.Tensor:
    """Returns `inputs` [batch, n] times new weights [n, units] plus a bias [units]: [batch, units].

    The result has the dtype of the weights: float32, or in training that of --compute_dtype.
    """
    with v1.variable_scope(name):
        weights = v1.get_variable("weights", [inputs.shape[1], units], initializer=v1.glorot_uniform_initializer())
        bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
    return tf.nn.bias_add(tf.matmul(tf.cast(inputs, weights.dtype), weights), bias)


def convolution(inputs: tf.Tensor, channels: int, name: str, size: int = 3, stride: int = 1) -> tf.Tensor:
    """Returns a convolution without a bias, initialized as He et al. 2015 ("Delving Deep into Rectifiers").

    Args:
      inputs: [batch, rows, columns, n]; converted to the dtype of the weights.
      channels: number of filters.
      name: variable scope of the `weights` [size, size, n, channels].
      size: rows and columns of a filter.
      stride: distance between the filter's places.

    Returns:
      [batch, rows / stride, columns / stride, channels], rounded up, of the dtype of the weights.
    """
    with v1.variable_scope(name):
        shape = [size, size, inputs.shape[-1], channels]
        initializer = v1.variance_scaling_initializer(2.0, "fan_in", "untruncated_normal")
        weights = v1.get_variable("weights", shape, initializer=initializer)
    return tf.nn.conv2d(tf.cast(inputs, weights.dtype), weights, stride, "SAME")


def batch_norm(inputs: tf.Tensor, training: bool, name: str, momentum: float = 0.9, epsilon: float = 1e-5) -> tf.Tensor:
    """Returns each channel normalized over the batch, and then scaled and shifted (Ioffe and Szegedy 2015).

    Mean and variance are float32 for inputs of any dtype.  Their moving averages are state that the model assigns
    (docs/MODELS.md#batch-norm).

    Args:
      inputs: float16, bfloat16 or float32 [batch, rows, columns, n].
      training: True normalizes by the batch's own mean and variance, and moves the averages; False uses the averages.
      name: variable scope of `scale`, `offset`, `mean` and `variance`, all [n].
      momentum: share of an average that a step keeps.
      epsilon: added to the variance.

    Returns:
      a tensor of the shape and dtype of the inputs.
    """
    channels = [inputs.shape[-1]]
    with v1.variable_scope(name):
        scale = v1.get_variable("scale", channels, initializer=v1.ones_initializer())
        offset = v1.get_variable("offset", channels, initializer=v1.zeros_initializer())
        mean = v1.get_variable("mean", channels, initializer=v1.zeros_initializer(), trainable=False)
        variance = v1.get_variable("variance", channels, initializer=v1.ones_initializer(), trainable=False)
    given = [tf.cast(value, tf.float32) for value in (scale, offset)]
    if not training:
        averages = [tf.cast(value, tf.float32) for value in (mean, variance)]
        return v1.nn.fused_batch_norm(inputs, *given, *averages, epsilon=epsilon, is_training=False)[0]
    outputs, *moments = v1.nn.fused_batch_norm(inputs, *given, epsilon=epsilon)
    for average, value in zip((mean, variance), moments, strict=True):
        change = (1 - momentum) * (average - tf.cast(value, average.dtype))
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(average, change))
    return outputs


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
