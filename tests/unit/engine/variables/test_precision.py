"""The dtype in which a tensor was computed is known where a cast has changed no value."""

from __future__ import annotations

import pytest
import tensorflow as tf

from ps_train.engine.variables.precision import origin_dtype


@pytest.mark.parametrize(
    "before, after, expected",
    [
        ("bfloat16", "float32", "bfloat16"),
        ("float16", "float32", "float16"),
        ("float32", "bfloat16", "bfloat16"),  # this cast rounds: what the tensor has are values of bfloat16
        ("float32", "float32", "float32"),
        ("float16", "bfloat16", "bfloat16"),
        ("int32", "float32", "float32"),
    ],
)
def test_the_origin_of_a_cast_is_the_dtype_whose_values_it_has(before, after, expected):
    with tf.Graph().as_default():
        tensor = tf.cast(tf.zeros([2], before), after)
        assert origin_dtype(tensor) == expected
        assert origin_dtype(tensor + tensor) == after
