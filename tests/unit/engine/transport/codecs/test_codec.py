"""A chain of codecs encodes the values of the first one by the second."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.transport.codecs.cast import Cast
from ps_train.engine.transport.codecs.codec import CodecChain
from ps_train.engine.transport.codecs.int8 import Int8
from ps_train.engine.transport.codecs.top_k import TopK
from tests.support.graphs.codecs import UsedCodec


@pytest.mark.parametrize(("second", "error"), [(Cast(tf.bfloat16), 2**-8), (Int8(), 1 / 100)], ids=["cast", "int8"])
@pytest.mark.parametrize("length", [50, 100_000])
def test_the_largest_values_arrive_rounded(second, error, length):
    vector = np.random.default_rng(1).normal(size=length).astype(np.float32)
    whole = UsedCodec(TopK(0.1), length)(vector)
    decoded = UsedCodec(CodecChain(TopK(0.1), second), length)(vector)
    assert np.abs(decoded - whole).max() <= np.abs(whole).max() * error
    assert np.array_equal(np.flatnonzero(decoded), np.flatnonzero(whole))
