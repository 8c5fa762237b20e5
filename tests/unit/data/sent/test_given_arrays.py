"""Arrays of a fit become those that Keras makes of them, and are split as Keras splits them."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError
from ps_train.data.sent.given_arrays import are_arrays, as_arrays, split_arrays


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.zeros(2, np.float64), "float32"),
        (np.zeros(2, np.float16), "float32"),
        (np.zeros(2, np.int64), "int64"),
        ([1, 2], "int64"),
        ([1.5, 2], "float32"),
        ([[True], [False]], "bool"),
        (["a", "b\0"], "object"),
        (tf.constant(["a", "b"]), "object"),
        (tf.constant([1, 2]), "int32"),
        (tf.cast([1, 2], tf.bfloat16), "float32"),
    ],
)
def test_types_are_those_of_keras(value, dtype):
    assert are_arrays(value)
    array = as_arrays("x", value)
    assert array.dtype.name == dtype
    assert len(array) == 2


def test_other_floating_point_numbers_follow_the_users_choice():
    keras.config.set_floatx("float64")
    try:
        assert as_arrays("x", np.zeros(2, np.float32)).dtype == np.float64
    finally:
        keras.config.set_floatx("float32")
    assert as_arrays("x", np.zeros(2), is_cast=False).dtype == np.float64


def test_lists_and_tuples_of_arrays_are_several_inputs():
    x = np.zeros(2)
    found = as_arrays("x", {"a": [x, (x, None)], "b": [[1, 2], [3, 4]]})
    tf.nest.assert_same_structure(found, {"a": (x, (x, None)), "b": x})
    assert found["b"].shape == (2, 2)


@pytest.mark.parametrize("value", [object(), [object()], {"a": 3}, [], tf.data.Dataset.range(3), lambda: 3])
def test_other_values_are_no_arrays(value):
    assert not are_arrays(value)


def test_tables_of_pandas_are_arrays():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.5, 2.5], "c": ["x", "y", "z"]})
    assert as_arrays("x", table[["a", "b"]]).tolist() == [[1, 0.5], [2, 1.5], [3, 2.5]]
    assert as_arrays("x", table["a"]).shape == (3, 1)
    assert as_arrays("x", dict(table))["c"].tolist() == [["x"], ["y"], ["z"]]
    (x, y, _), (_, rest, _) = split_arrays(table[["a", "b"]], table["a"], None, 0.4)
    assert (type(x), y.tolist(), rest.tolist()) == (pandas.DataFrame, [1], [2, 3])


@pytest.mark.parametrize("fraction", [0.2, 0.25, 0.5, 0.8])
def test_the_last_part_is_that_of_keras(fraction):
    x, y = np.arange(20).reshape(10, 2), np.arange(10)
    seen = []

    class Spy(keras.Model):
        def train_step(self, data):
            return {"loss": tf.constant(0.0)}

        def test_step(self, data):
            tf.numpy_function(lambda *values: seen.append(values), tf.nest.flatten(data), [])
            return {"loss": tf.constant(0.0)}

    model = Spy()
    model.compile(jit_compile=False)
    model.fit({"x": x}, y, sample_weight=y, validation_split=fraction, verbose=0)
    train, validate = split_arrays({"x": x}, y, y, fraction)
    assert all(map(np.array_equal, tf.nest.flatten(validate), seen[0]))
    assert np.array_equal(np.concatenate([train[1], validate[1]]), y)
    assert np.array_equal(train[0]["x"], x[: len(train[1])])


def test_a_split_keeps_types_and_structures():
    (x, y, weights), _ = split_arrays([tf.range(4), ["a", "b", "c", "d"]], None, None, 0.5)
    assert x[0].numpy().tolist() == [0, 1]
    assert x[1].tolist() == ["a", "b"]
    assert (y, weights) == (None, None)


@pytest.mark.parametrize(
    ("error", "words", "x", "fraction"),
    [
        (ConfigError, "validation_split=1.5 .* not between", np.zeros(4), 1.5),
        (ConfigError, "no example to train on, of 1", np.zeros(1), 0.5),
        (DataError, "needs arrays, and x is of the type", tf.data.Dataset.range(3), 0.5),
        (DataError, "differ in their number of examples .x 3, y 4", np.zeros(3), 0.5),
    ],
)
def test_a_wrong_split_is_refused(error, words, x, fraction):
    with pytest.raises(error, match=words):
        split_arrays(x, np.zeros(4) if isinstance(x, np.ndarray) and len(x) == 3 else None, None, fraction)
