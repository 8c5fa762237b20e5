"""Vectors of several dtypes as one vector of bytes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.codecs.wire import as_one, from_bytes, from_one, to_bytes

DTYPES = (tf.int8, tf.float32, tf.bfloat16, tf.uint16, tf.int64, tf.uint8)


@pytest.mark.parametrize("sizes", [(1, 2, 3, 4, 5, 6), (0, 0, 0, 0, 0, 0), (300, 0, 7, 1, 0, 64)], ids=str)
def test_all_bits_arrive(sizes):
    generator = np.random.default_rng(1)
    bits = [generator.integers(0, 256, (size, dtype.size), np.uint8) for size, dtype in zip(sizes, DTYPES, strict=True)]
    values = [bit.reshape(-1).view(dtype.as_numpy_dtype) for bit, dtype in zip(bits, DTYPES, strict=True)]
    with tf.Graph().as_default(), v1.Session() as session:
        wire = to_bytes([tf.constant(value, shape=[len(value)]) for value in values])
        found, length = session.run([from_bytes(wire, DTYPES), tf.size(wire)])
    assert length == sum(bit.size for bit in bits) + 4 * len(DTYPES)
    for one, value in zip(found, values, strict=True):
        assert one.dtype == value.dtype
        assert one.tobytes() == value.tobytes()


def test_a_single_tensor_travels_as_it_is():
    with tf.Graph().as_default():
        one = tf.zeros([3], tf.bfloat16)
        assert as_one([one]) is one
        assert from_one(one, [tf.bfloat16]) == [one]
        assert as_one([one, one]).dtype == tf.uint8
