"""Cast: float32 travels as a dtype of 16 bits, rounded to the nearest value."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from ps_train.engine.transport.codecs.codec import Codec


class Cast(Codec):
    """A codec that rounds to a floating-point dtype of 16 bits.

    bfloat16 has float32's range and 8 significant bits; float16 has 11, and a largest value of 65,504.

    Args:
      dtype: bfloat16 or float16.
    """

    def __init__(self, dtype: tf.DType) -> None:
        self.dtypes = (dtype,)

    def is_lossless_for(self, dtype: tf.DType) -> bool:
        """Returns True for the dtype that travels."""
        return dtype == self.dtypes[0]

    def encode(self, vector: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the rounded vector."""
        return (saturating_cast(vector, self.dtypes[0]),)

    def decode(self, parts: Sequence[tf.Tensor], length: tf.Tensor | int) -> tf.Tensor:
        """Returns the vector as float32."""
        return tf.cast(parts[0], tf.float32)


def saturating_cast(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Casts float32 to a dtype; a value beyond the range of float16 becomes its largest value.

    A tensor that has the dtype is returned as it is.
    """
    if dtype == tf.float16 != tensor.dtype:
        tensor = tf.clip_by_value(tensor, tf.float16.min, tf.float16.max)
    return tf.cast(tensor, dtype)
