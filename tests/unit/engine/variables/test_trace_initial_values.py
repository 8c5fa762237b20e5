"""Initial values of a traced model's variables: the model's initializers, and seeds."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.graphs.tracing import traced, values_of, weights

COLUMN = np.array([[1.0], [2.0], [3.0], [4.0]], np.float32)


@pytest.mark.parametrize(
    "initializer",
    [
        COLUMN,
        COLUMN.tolist(),
        lambda: tf.constant(COLUMN),
        lambda: COLUMN,
    ],
    ids=["numpy", "list", "function giving a tensor", "function giving an array"],
)
def test_an_initializer_that_is_a_value_gives_the_variable_its_shape_and_value(initializer):
    found = traced(lambda x: x @ weights(shape=None, initializer=initializer))
    assert found.variables["w"].spec.shape == (4, 1)
    assert not found.variables["w"].spec.divisible
    np.testing.assert_array_equal(values_of(found)["w"], COLUMN)


def test_an_initializer_may_be_a_tensor_of_the_models_graph():
    found = traced(lambda x: x @ weights(shape=None, initializer=tf.constant(COLUMN) * 2))
    np.testing.assert_array_equal(values_of(found)["w"], COLUMN * 2)


def test_an_initializer_may_be_a_number():
    found = traced(lambda x: x * v1.get_variable("scale", initializer=0.25))
    value = values_of(found)["scale"]
    assert value == 0.25
    assert value.dtype == np.float32


@pytest.mark.parametrize(
    ("initializer", "expected"),
    [
        (v1.ones_initializer(), 1.0),
        (v1.zeros_initializer, 0.0),
        (v1.constant_initializer(0.5), 0.5),
        (tf.ones_initializer(), 1.0),
        (lambda shape, dtype, partition_info=None: tf.fill(shape, tf.constant(3.0, dtype)), 3.0),
    ],
    ids=["object", "class", "constant", "version 2", "function"],
)
def test_an_initializer_may_be_a_callable_of_shape_and_type(initializer, expected):
    found = traced(lambda x: x @ weights(initializer=initializer))
    assert found.variables["w"].spec.divisible
    np.testing.assert_array_equal(values_of(found)["w"], np.full((4, 1), expected, np.float32))


def test_the_initializer_of_a_scope_counts():
    def forward(features):
        with v1.variable_scope("scope", initializer=v1.ones_initializer()):
            return features @ weights()

    np.testing.assert_array_equal(values_of(traced(forward))["scope/w"], np.ones((4, 1), np.float32))


def test_without_an_initializer_values_are_as_tensorflow_draws_them_by_default():
    found = traced(lambda x: x @ weights(shape=[4, 200]) @ weights("v", shape=[200, 1]))
    limit = np.sqrt(6 / 204)
    value = values_of(found)["w"]
    assert np.abs(value).max() <= limit
    assert np.abs(value).max() > 0.9 * limit
    assert abs(value.mean()) < 0.1 * limit


def test_without_an_initializer_an_integer_is_zero():
    found = traced(
        lambda x: x @ weights() + tf.cast(v1.get_variable("n", [2], tf.int64, trainable=False)[0], tf.float32)
    )
    np.testing.assert_array_equal(values_of(found)["n"], np.zeros(2, np.int64))


RANDOM = {
    "default": None,
    "glorot": v1.glorot_uniform_initializer(),
    "class": v1.random_uniform_initializer,
    "truncated": v1.truncated_normal_initializer(stddev=0.1),
    "orthogonal": v1.orthogonal_initializer(),
    "version 2 normal": tf.random_normal_initializer(),
    "version 2 uniform": tf.random_uniform_initializer(),
}


def random_model(initializer):
    return traced(lambda x: x @ weights(initializer=initializer) + x @ weights("v", initializer=initializer))


@pytest.mark.parametrize("initializer", RANDOM.values(), ids=RANDOM)
def test_a_random_initial_value_depends_on_name_and_seed_alone_not_on_the_order(initializer):
    """A partitioned variable's slices are cut from the whole value, computed anew on every ps."""
    first = values_of(random_model(initializer), order=["w", "v"])
    other = values_of(random_model(initializer), order=["v", "w"])
    np.testing.assert_array_equal(first["w"], other["w"])
    np.testing.assert_array_equal(first["v"], other["v"])


@pytest.mark.parametrize("initializer", RANDOM.values(), ids=RANDOM)
def test_random_initial_values_of_different_variables_differ(initializer):
    values = values_of(random_model(initializer))
    assert not np.array_equal(values["w"], values["v"])


@pytest.mark.parametrize("initializer", RANDOM.values(), ids=RANDOM)
def test_random_initial_values_of_different_seeds_differ(initializer):
    found = random_model(initializer)
    assert not np.array_equal(values_of(found, seed=1)["w"], values_of(found, seed=2)["w"])


def test_a_seed_of_the_initializer_itself_counts():
    found = random_model(v1.random_normal_initializer(seed=11))
    np.testing.assert_array_equal(values_of(found, seed=1)["w"], values_of(found, seed=2)["w"])


def test_the_initializer_of_the_model_is_not_changed():
    initializer = v1.random_normal_initializer()
    values_of(random_model(initializer))
    assert initializer.seed is None
