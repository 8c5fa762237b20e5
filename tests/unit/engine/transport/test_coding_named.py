"""Codecs by their names."""

from __future__ import annotations

import pytest
import tensorflow as tf

from ps_train.engine.transport.coding import codec_of, row_codecs_of

TOP_K = (tf.float32, tf.uint16, tf.int32)


@pytest.mark.parametrize(
    ("text", "dense", "rows"),
    [
        ("bfloat16", (tf.bfloat16,), [(tf.bfloat16,)]),
        ("float16", (tf.float16,), [(tf.float16,)]),
        ("int8", (tf.int8, tf.float32), [(tf.int8, tf.float32)]),
        ("top_k:0.01", TOP_K, []),
        ("top_k:0.01,int8", (*TOP_K[1:], tf.int8, tf.float32), [(tf.int8, tf.float32)]),
        ("top_k:0.01,bfloat16", (*TOP_K[1:], tf.bfloat16), [(tf.bfloat16,)]),
    ],
)
def test_dense_gradients_and_rows_have_the_codec_of_the_name(text, dense, rows):
    assert codec_of(text).dtypes == dense
    assert [codec.dtypes for codec in row_codecs_of(text)] == rows
