"""int8 with one scale for each block of 256 values, and unbiased rounding.

Alistarh et al. 2017, "QSGD: Communication-Efficient SGD via Gradient Quantization and Encoding".  A value x of a block
with the scale s = max|x| / 127 becomes floor(x / s + u), with u uniform in [0, 1): its mean is x / s.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from ps_train.engine.transport.codecs.codec import Codec

BLOCK = 256
"""Values with one scale."""

_GROUP = 16
"""Blocks with dither of their own.  More blocks use the same dither again, so it need not be drawn for each value."""

_LARGEST = 127
_SMALLEST_SCALE = 1e-30
"""A block with a smaller scale is sent as zeros, because the inverse of its scale would not be finite."""


class Int8(Codec):
    """A codec of one byte a value.  Its tensors: the numbers, int8 [n]; the scales, float32 [blocks]."""

    dtypes = (tf.int8, tf.float32)
    multiple = BLOCK * _GROUP

    def encode(self, vector: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns the rounded numbers and the scales."""
        blocks = tf.reshape(_filled(vector), [-1, BLOCK])
        scales = tf.reduce_max(tf.abs(blocks), 1) / _LARGEST
        inverse = tf.where(scales > _SMALLEST_SCALE, 1 / tf.maximum(scales, _SMALLEST_SCALE), 0.0)
        rounded = tf.floor(_dithered(blocks * inverse[:, tf.newaxis], seed))
        # 127 + u may be 128 after rounding to float32; the cast would make -128 of it.
        numbers = tf.cast(tf.minimum(tf.reshape(rounded, [-1]), _LARGEST), tf.int8)
        return _cut(numbers, _length_of(vector)), scales

    def decode(self, parts: Sequence[tf.Tensor], length: tf.Tensor | int) -> tf.Tensor:
        """Returns the numbers, each multiplied by its block's scale."""
        numbers, scales = parts
        values = tf.cast(tf.reshape(_filled(numbers), [-1, BLOCK]), tf.float32) * scales[:, tf.newaxis]
        return _cut(tf.reshape(values, [-1]), length)


def _length_of(vector: tf.Tensor) -> tf.Tensor | int:
    return tf.size(vector) if vector.shape[0] is None else vector.shape[0]


def _filled(vector: tf.Tensor) -> tf.Tensor:
    """Fills a vector up to a whole number of blocks."""
    missing = -_length_of(vector) % BLOCK
    return vector if isinstance(missing, int) and not missing else tf.pad(vector, [[0, missing]])


def _cut(vector: tf.Tensor, length: tf.Tensor | int) -> tf.Tensor:
    return vector if isinstance(length, int) and vector.shape[0] == length else vector[:length]


def _dithered(blocks: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Adds to each value a number that is uniform in [0, 1).

    The numbers are a fixed table, turned by a random offset: drawing a number for each value would take longer than all
    the rest.
    """
    offset = tf.random.stateless_uniform([], seed, maxval=_TABLE.size, dtype=tf.int32)
    turned = tf.roll(tf.constant(_TABLE), offset, 0)
    count = blocks.shape[0]
    if count is not None and count % _GROUP == 0:
        return tf.reshape(blocks, [-1, _TABLE.size]) + turned
    rows = tf.range(tf.shape(blocks)[0]) % _GROUP
    return blocks + tf.gather(tf.reshape(turned, [_GROUP, BLOCK]), rows)


_TABLE = ((np.random.default_rng(2017).permutation(BLOCK * _GROUP) + 0.5) / (BLOCK * _GROUP)).astype(np.float32)
"""Each of 4,096 numbers in [0, 1) once, so that a random turn gives every value a uniform number."""
