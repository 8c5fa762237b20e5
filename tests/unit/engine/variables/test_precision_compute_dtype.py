"""Casts to the compute dtype and back."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.variables.precision import cast_gradient, cast_values, widen_outputs

VALUES = {"w": np.float32([1 / 3, 2]), "double": np.float64([1 / 3]), "count": np.int64([7])}


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_only_values_of_float32_are_cast(dtype: tf.DType) -> None:
    values = {name: tf.constant(value) for name, value in VALUES.items()}
    values["ready"] = tf.constant([0.5], dtype)
    found = cast_values(values, dtype)
    assert {name: value.dtype for name, value in found.items()} == {
        "w": dtype, "double": tf.float64, "count": tf.int64, "ready": dtype
    }  # fmt: skip
    np.testing.assert_array_equal(found["w"], VALUES["w"].astype(dtype.as_numpy_dtype))
    assert all(found[name] is values[name] for name in ("double", "count", "ready"))


def test_in_float32_no_operation_is_added() -> None:
    with tf.Graph().as_default() as graph:
        values = {name: tf.constant(value) for name, value in VALUES.items()}
        before = len(graph.get_operations())
        assert cast_values(values, tf.float32) == values
        assert len(graph.get_operations()) == before


def test_the_outputs_keep_their_structure_and_are_float32_where_they_were_narrow() -> None:
    ragged = tf.ragged.constant([[1.0], [2.0, 3.0]], dtype=tf.bfloat16)
    outputs = {"a": tf.constant(1.5, tf.float16), "b": (tf.constant(2, tf.int32), [ragged, "text"])}
    outputs["c"] = tf.constant(1.5, tf.float64)
    found = widen_outputs(outputs)
    assert found["a"].dtype == tf.float32 and found["a"].numpy() == 1.5
    assert found["b"][0].dtype == tf.int32 and found["b"][1][1] == "text" and found["c"].dtype == tf.float64
    assert found["b"][1][0].dtype == tf.float32 and found["b"][1][0].to_list() == [[1.0], [2.0, 3.0]]


def test_a_gradient_gets_the_dtype_of_its_variable() -> None:
    assert cast_gradient(None, tf.float32) is None
    dense = tf.constant([1.5], tf.float32)
    assert cast_gradient(dense, tf.float32) is dense
    assert cast_gradient(tf.cast(dense, tf.bfloat16), tf.float32).dtype == tf.float32
    rows = cast_gradient(tf.IndexedSlices(tf.constant([[2.0]], tf.float16), tf.constant([4])), tf.float32)
    assert isinstance(rows, tf.IndexedSlices) and rows.dtype == tf.float32 and rows.values.numpy() == [[2.0]]
