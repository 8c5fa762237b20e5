"""Precision of sums: values of a dtype below 32 bits are added up, squared and divided as float32.

    total = tf.add_n([widen(gradient) for gradient in gradients])
    mean = tf.cast(total / count, gradients[0].dtype)

float16 overflows at 65,504 and cannot count ones beyond 2,048; bfloat16 cannot beyond 256.  float32 and float64 are
left as they are.
"""

from __future__ import annotations

import tensorflow as tf


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
