"""Precision of sums: values of a dtype below 32 bits are added up, squared and divided as float32.

    total = tf.add_n([widen(gradient) for gradient in gradients])
    mean = tf.cast(total / count, gradients[0].dtype)

float16 overflows at 65,504 and cannot count ones beyond 2,048; bfloat16 cannot beyond 256.  float32 and float64 are
left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf


def cast_values(values: Mapping[str, tf.Tensor], dtype: tf.DType) -> dict[str, tf.Tensor]:
    """Returns the values with those of float32 cast to `dtype`; values of other dtypes are returned unchanged."""
    return {name: tf.cast(value, dtype) if value.dtype == tf.float32 else value for name, value in values.items()}


def widen_outputs(outputs: Any) -> Any:
    """Returns a structure of the same kind, with its tensors below 32 bits cast to float32."""

    def widened(part: Any) -> Any:
        return widen(part) if isinstance(part, tf.Tensor) else part

    return tf.nest.map_structure(widened, outputs, expand_composites=True)


def cast_gradient(gradient: Any, dtype: tf.DType) -> Any:
    """Returns a gradient (tensor, IndexedSlices or None) in the dtype of its variable."""
    return gradient if gradient is None or gradient.dtype == dtype else tf.cast(gradient, dtype)


def is_narrow(dtype: tf.DType) -> bool:
    """Returns True for float16, bfloat16 and other floating-point dtypes below 32 bits."""
    return bool(dtype.is_floating and dtype.size < tf.float32.size)


def accumulation_dtype(dtype: tf.DType) -> tf.DType:
    """Returns the dtype in which values of `dtype` are added up."""
    return tf.float32 if is_narrow(dtype) else dtype


def origin_dtype(tensor: tf.Tensor) -> tf.DType:
    """Returns the dtype below 32 bits from which a tensor was widened, whose values it has; otherwise its own dtype."""
    before = tensor.op.inputs[0].dtype if tensor.op.type == "Cast" else tensor.dtype
    return before if is_narrow(before) and not is_narrow(tensor.dtype) else tensor.dtype


def widen(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the tensor cast to its accumulation dtype; the same tensor if it already has that dtype."""
    return tf.cast(tensor, accumulation_dtype(tensor.dtype))
