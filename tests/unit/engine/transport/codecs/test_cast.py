"""Casts to 16 bits: rounded to the nearest value, and never infinite."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.transport.codecs.cast import Cast, saturating_cast
from tests.support.graphs.codecs import UsedCodec


@pytest.mark.parametrize(("dtype", "error"), [(tf.bfloat16, 2**-8), (tf.float16, 2**-11)], ids=str)
def test_a_value_is_rounded_to_the_nearest(dtype, error):
    vector = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    decoded = UsedCodec(Cast(dtype), 1000)(vector)
    assert decoded.dtype == np.float32
    assert (np.abs(decoded - vector) <= np.abs(vector) * error).all()
    assert np.array_equal(UsedCodec(Cast(dtype), 1000)(decoded), decoded)


def test_a_value_beyond_the_range_of_float16_becomes_its_largest():
    decoded = UsedCodec(Cast(tf.float16), 4)(np.array([1e6, -1e6, 65_519, 3e38], np.float32))
    assert decoded.tolist() == [65_504, -65_504, 65_504, 65_504]


def test_a_tensor_that_has_the_dtype_stays():
    with tf.Graph().as_default():
        for dtype in (tf.float16, tf.float32, tf.string):
            tensor = tf.zeros([2], dtype)
            assert saturating_cast(tensor, dtype) is tensor
