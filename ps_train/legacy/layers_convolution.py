"""TensorFlow 1's convolutions and poolings of `tf.layers`, on `tf.get_variable`.

maps = conv2d(images, 32, 5, activation=tf.nn.relu)        # variables conv2d/kernel, conv2d/bias
maps = max_pooling2d(maps, pool_size=2, strides=2)
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.legacy.layer_variables import activated, layer_scope, make_variable

_FIRST = "channels_first"


@dataclasses.dataclass
class _Convolution:
    """Arguments of `conv1d` and `conv2d`."""

    inputs: Any
    filters: int
    kernel_size: Any
    strides: Any = 1
    padding: str = "valid"
    data_format: str = "channels_last"
    dilation_rate: Any = 1
    activation: Any = None
    use_bias: bool = True
    kernel_initializer: Any = None
    bias_initializer: Any = dataclasses.field(default_factory=v1.zeros_initializer)
    kernel_regularizer: Any = None
    bias_regularizer: Any = None
    activity_regularizer: Any = None
    kernel_constraint: Any = None
    bias_constraint: Any = None
    trainable: bool = True
    name: str | None = None
    reuse: Any = None

    def outputs(self, dimensions: int) -> Any:
        inputs = tf.convert_to_tensor(self.inputs)
        is_first = self.data_format == _FIRST
        channels = inputs.shape.as_list()[1 if is_first else -1]
        if channels is None:
            raise ValueError(f"the channels of the inputs of conv{dimensions}d are unknown in {inputs.shape}: set them")
        with layer_scope(self.name, f"conv{dimensions}d", self.reuse):
            shape = [*_sizes(self.kernel_size, dimensions), channels, self.filters]
            kernel = make_variable(self, "kernel", shape, inputs.dtype)
            outputs = tf.nn.convolution(
                _channels_last(inputs) if is_first else inputs,
                kernel,
                strides=_sizes(self.strides, dimensions),
                padding=self.padding.upper(),
                dilations=_sizes(self.dilation_rate, dimensions),
            )
            if self.use_bias:
                outputs = tf.nn.bias_add(outputs, make_variable(self, "bias", [self.filters], inputs.dtype))
            return activated(self, _channels_first(outputs) if is_first else outputs)


def conv2d(*arguments: Any, **options: Any) -> Any:
    """Returns the convolution of images [batch, rows, columns, channels], after bias and activation.

    Variables: kernel [rows, columns, channels, filters], bias [filters].

    Raises:
      ValueError: the number of channels is unknown.
    """
    return _Convolution(*arguments, **options).outputs(2)


def conv1d(*arguments: Any, **options: Any) -> Any:
    """Returns the convolution of sequences [batch, length, channels], after bias and activation.

    Variables: kernel [size, channels, filters], bias [filters].

    Raises:
      ValueError: the number of channels is unknown.
    """
    return _Convolution(*arguments, **options).outputs(1)


def max_pooling2d(
    inputs: Any, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
    name: str | None = None,
) -> Any:  # fmt: skip
    """Returns the maximum of each window of images [batch, rows, columns, channels].

    Args:
      inputs: the images.
      pool_size: rows and columns of a window, or one number.
      strides: between windows, or one number.
      padding: `valid` or `same`.
      data_format: `channels_last` or `channels_first`.
      name: of the operation.
    """
    return _pooled("MAX", inputs, (pool_size, strides), padding, data_format, name or "max_pooling2d")


def average_pooling2d(
    inputs: Any, pool_size: Any, strides: Any, padding: str = "valid", data_format: str = "channels_last",
    name: str | None = None,
) -> Any:  # fmt: skip
    """Returns the mean of each window of images; the arguments are those of `max_pooling2d`."""
    return _pooled("AVG", inputs, (pool_size, strides), padding, data_format, name or "average_pooling2d")


def _pooled(kind: str, inputs: Any, window: tuple[Any, Any], padding: str, data_format: str, name: str) -> Any:
    inputs = tf.convert_to_tensor(inputs)
    is_first = data_format == _FIRST
    outputs = tf.nn.pool(
        _channels_last(inputs) if is_first else inputs,
        _sizes(window[0], 2),
        kind,
        strides=_sizes(window[1], 2),
        padding=padding.upper(),
        name=name,
    )
    return _channels_first(outputs) if is_first else outputs


def _sizes(value: Any, dimensions: int) -> list[int]:
    return [int(each) for each in value] if isinstance(value, list | tuple) else [int(value)] * dimensions


def _channels_last(inputs: Any) -> Any:
    rank = inputs.shape.rank
    return tf.transpose(inputs, [0, *range(2, rank), 1])


def _channels_first(outputs: Any) -> Any:
    rank = outputs.shape.rank
    return tf.transpose(outputs, [0, rank - 1, *range(1, rank - 1)])
