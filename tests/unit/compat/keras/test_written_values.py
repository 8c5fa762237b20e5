"""Written variables are found; others are not, however they were read."""

from __future__ import annotations

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.compat.keras.written_values import WrittenValues


def variable(dtype="float32"):
    return keras.Variable(np.arange(12).reshape(3, 4), dtype=dtype)


WRITES = {
    "assign": lambda v: v.assign(v + 1),
    "one element": lambda v: v.value[1, 2].assign(tf.cast(50, v.dtype)),
    "add in place": lambda v: v.assign_add(keras.ops.ones_like(v)),
    "some rows": lambda v: v.value.scatter_sub(tf.IndexedSlices(tf.ones([1, 4], v.dtype), [2])),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int64"])
@pytest.mark.parametrize("write", WRITES)
def test_any_write_is_found(dtype, write):
    variables = [variable(dtype), variable(dtype)]
    seen = WrittenValues(variables)
    assert not seen.are_there()
    WRITES[write](variables[1])
    assert seen.are_there()
    assert not WrittenValues(variables).are_there()


def test_reads_and_the_same_values_are_no_change():
    one = variable()
    seen = WrittenValues([one])
    np.asarray(one.value), one.numpy(), one + 1
    assert not seen.are_there()
    one.assign(np.array(one))
    assert not seen.are_there()


def test_a_variable_of_which_rows_were_written_before_can_be_compared_too():
    one = variable()
    WRITES["some rows"](one)  # whose reads are copies from here on
    seen = WrittenValues([one])
    assert not seen.are_there()
    WRITES["some rows"](one)
    assert seen.are_there()


def test_a_large_variable_that_was_not_written_is_not_compared():
    large = keras.Variable(keras.ops.zeros((1_000_000, 16)))
    seen = WrittenValues([large])
    begin = time.process_time()
    assert not any(seen.are_there() for _ in range(20))
    assert time.process_time() - begin < 0.1  # one comparison takes about 0.02 s
