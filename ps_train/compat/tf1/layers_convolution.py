"""TensorFlow 1's convolutions and poolings of `tf.layers`, on `tf.get_variable`.

maps = conv2d(images, 32, 5, activation=tf.nn.relu)        # variables conv2d/kernel, conv2d/bias
maps = max_pooling2d(maps, pool_size=2, strides=2)
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ps_train.compat.tf1.layer_variables import ZEROS, activated, as_size, layer_scope, make_variable

_FIRST = "channels_first"


def conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = 1,
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
    """Returns the convolution of images [batch, rows, columns, channels], after bias and activation.

    Variables: kernel [rows, columns, channels, filters], bias [filters].

    Raises:
      ValueError: the number of channels is unknown, or a size is no number.
    """
    with layer_scope(name, "conv2d", reuse):
        outputs = _convolved(
            2,
            inputs,
            filters,
            (kernel_size, strides, dilation_rate),
            padding,
            data_format,
            of_kernel=(kernel_initializer, kernel_regularizer, kernel_constraint, trainable),
            of_bias=(bias_initializer, bias_regularizer, bias_constraint, trainable) if use_bias else None,
        )
        return activated(outputs, activation, activity_regularizer)


def conv1d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = 1,
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
    """Returns the convolution of sequences [batch, length, channels], after bias and activation.

    Variables: kernel [size, channels, filters], bias [filters].

    Raises:
      ValueError: the number of channels is unknown, or a size is no number.
    """
    with layer_scope(name, "conv1d", reuse):
        outputs = _convolved(
            1,
            inputs,
            filters,
            (kernel_size, strides, dilation_rate),
            padding,
            data_format,
            of_kernel=(kernel_initializer, kernel_regularizer, kernel_constraint, trainable),
            of_bias=(bias_initializer, bias_regularizer, bias_constraint, trainable) if use_bias else None,
        )
        return activated(outputs, activation, activity_regularizer)


def _convolved(
    dimensions: int,
    inputs: Any,
    filters: int,
    sizes: tuple[Any, Any, Any],
    padding: str,
    data_format: str,
    of_kernel: tuple[Any, ...],
    of_bias: tuple[Any, ...] | None,
) -> Any:
    """Returns the convolution with bias; `sizes` are those of kernel, strides and dilation."""
    inputs = tf.convert_to_tensor(inputs)
    is_first = data_format == _FIRST
    channels = inputs.shape.as_list()[1 if is_first else -1]
    if channels is None:
        raise ValueError(f"the channels of the inputs of conv{dimensions}d are unknown in {inputs.shape}: set them")
    layer = f"conv{dimensions}d"
    filters = as_size(filters, f"filters of {layer}")
    names = ("kernel_size", "strides", "dilation_rate")
    window, strides, dilations = (
        _sizes(size, dimensions, f"{name} of {layer}") for size, name in zip(sizes, names, strict=True)
    )
    outputs = tf.nn.convolution(
        _channels_last(inputs) if is_first else inputs,
        make_variable("kernel", [*window, channels, filters], inputs.dtype, *of_kernel),
        strides=strides,
        padding=padding.upper(),
        dilations=dilations,
    )
    if of_bias is not None:
        outputs = tf.nn.bias_add(outputs, make_variable("bias", [filters], inputs.dtype, *of_bias))
    return _channels_first(outputs) if is_first else outputs


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
        _sizes(window[0], 2, f"pool_size of {name}"),
        kind,
        strides=_sizes(window[1], 2, f"strides of {name}"),
        padding=padding.upper(),
        name=name,
    )
    return _channels_first(outputs) if is_first else outputs


def _sizes(value: Any, dimensions: int, name: str) -> list[int]:
    each = value if isinstance(value, list | tuple) else [value] * dimensions
    return [as_size(size, name) for size in each]


def _channels_last(inputs: Any) -> Any:
    rank = inputs.shape.rank
    return tf.transpose(inputs, [0, *range(2, rank), 1])


def _channels_first(outputs: Any) -> Any:
    rank = outputs.shape.rank
    return tf.transpose(outputs, [0, rank - 1, *range(1, rank - 1)])
