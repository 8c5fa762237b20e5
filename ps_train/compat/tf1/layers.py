"""TensorFlow 1's `tf.layers` on `tf.get_variable`: dense, dropout and flatten; with those of the other layer modules.

hidden = layers.dense(features, 64, activation=tf.nn.relu, name="hidden")      # variables hidden/kernel, hidden/bias

The names, shapes, initial values and collections of variables are those of TensorFlow 1, without Keras.  Each function
takes the arguments of TensorFlow 1's, in the same order.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1.layer_variables import ZEROS, activated, as_size, layer_scope, make_variable, when_training
from ps_train.compat.tf1.layers_convolution import average_pooling2d, conv1d, conv2d, max_pooling2d
from ps_train.compat.tf1.layers_normalization import batch_normalization

__all__ = [
    "average_pooling2d",
    "batch_normalization",
    "conv1d",
    "conv2d",
    "dense",
    "dropout",
    "flatten",
    "max_pooling2d",
]


def dense(
    inputs: Any,
    units: int,
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = ZEROS,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """Returns activation(inputs @ kernel + bias), float [..., units], for inputs [..., n].

    Variables: kernel [n, units], bias [units].

    Raises:
      ValueError: the last dimension of the inputs is unknown, or `units` is no number.
    """
    inputs, units = tf.convert_to_tensor(inputs), as_size(units, "units of dense")
    size = inputs.shape.as_list()[-1]
    if size is None:
        raise ValueError(f"the last dimension of the inputs of dense is unknown in {inputs.shape}: set it")
    with layer_scope(name, "dense", reuse):
        of_kernel = (kernel_initializer, kernel_regularizer, kernel_constraint, trainable)
        kernel = make_variable("kernel", [size, units], inputs.dtype, *of_kernel)
        if inputs.shape.rank == 2:
            outputs = tf.matmul(inputs, kernel)
        else:
            outputs = tf.tensordot(inputs, kernel, [[inputs.shape.rank - 1], [0]])
            outputs.set_shape([*inputs.shape.as_list()[:-1], units])
        if use_bias:
            of_bias = (bias_initializer, bias_regularizer, bias_constraint, trainable)
            outputs = tf.nn.bias_add(outputs, make_variable("bias", [units], inputs.dtype, *of_bias))
        return activated(outputs, activation, activity_regularizer)


def dropout(
    inputs: Any, rate: Any = 0.5, noise_shape: Any = None, seed: int | None = None, training: Any = False,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Returns inputs of which a part is zero in training, and the others are 1 / (1 - rate) times as large.

    Args:
      inputs: a tensor.
      rate: the part that becomes zero.
      noise_shape: the shape of the random mask; None: of the inputs.
      seed: of the mask.
      training: a bool or a tensor of one; False returns the inputs.
      name: of the operations.
    """
    with v1.name_scope(name, "dropout"):
        inputs = tf.convert_to_tensor(inputs)
        return when_training(
            training,
            lambda: v1.nn.dropout(inputs, rate=rate, noise_shape=noise_shape, seed=seed),
            lambda: tf.identity(inputs),
        )


def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Any:
    """Returns inputs [batch, ...] as [batch, n].

    Args:
      inputs: a tensor.
      name: of the operations.
      data_format: `channels_first` moves dimension 1 to the end before.
    """
    with v1.name_scope(name, "flatten"):
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.shape.rank
        if data_format == "channels_first" and rank is not None and rank > 2:
            inputs = tf.transpose(inputs, [0, *range(2, rank), 1])
        sizes = inputs.shape.as_list()[1:]
        if None in sizes:
            return tf.reshape(inputs, [tf.shape(inputs)[0], -1])
        size = 1
        for each in sizes:
            size *= each
        return tf.reshape(inputs, [-1, size])
