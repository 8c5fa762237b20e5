"""Precision of sums: values of a dtype below 32 bits are added up, squared and divided as float32.

    total = tf.add_n([widened(gradient) for gradient in gradients])
    mean = tf.cast(total / count, gradients[0].dtype)

float16 ends at 65,504 and stops counting ones at 2,048; bfloat16 stops at 256.  float32 and float64 stay as they are.
"""

from __future__ import annotations

import tensorflow as tf


def is_narrow(dtype: tf.DType) -> bool:
    """True for float16, bfloat16 and other floating-point dtypes below 32 bits."""
    return bool(dtype.is_floating and dtype.size < tf.float32.size)


def accumulation_dtype(dtype: tf.DType) -> tf.DType:
    """Returns the dtype in which values of `dtype` are added up."""
    return tf.float32 if is_narrow(dtype) else dtype


def widen(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the same values in their accumulation dtype; the same tensor where that is its own."""
    return tf.cast(tensor, accumulation_dtype(tensor.dtype))
