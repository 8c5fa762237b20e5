"""What is learned of a model by running it once, and what is wrong with models that cannot be trained."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.placement.plan import VariableSpec
from tests.support.tracing import refusal, traced, weights


def values_of(found, seed=1, order=None, graph_seed=5):
    """The initial values of a traced model's variables, computed in a graph of their own."""
    with tf.Graph().as_default():
        v1.set_random_seed(graph_seed)
        tensors = {name: found.variables[name].initial_value(seed) for name in order or found.variables}
        with v1.Session() as session:
            return session.run(tensors)


def test_variables_are_found_with_name_shape_and_type_in_their_order():
    def forward(features):
        with v1.variable_scope("layer"):
            hidden = features @ weights(shape=[4, 3])
        count = v1.get_variable("count", [], tf.int64, trainable=False)
        with v1.variable_scope("out"):
            return hidden @ weights(shape=[3, 1]) + weights("b", shape=[1]) + tf.cast(count, tf.float32)

    assert traced(forward).specs() == [
        VariableSpec("layer/w", (4, 3), "float32", 4),
        VariableSpec("count", (), "int64", 8, divisible=False),
        VariableSpec("out/w", (3, 1), "float32", 4),
        VariableSpec("out/b", (1,), "float32", 4),
    ]


def test_types_other_than_float32_are_kept():
    def forward(features):
        wide = tf.cast(features, tf.float64) @ weights(dtype=tf.float64)
        return tf.cast(wide, tf.float32) + tf.cast(
            tf.cast(features, tf.float16) @ weights("h", dtype=tf.float16), tf.float32
        )

    assert [(spec.dtype, spec.bytes) for spec in traced(forward).specs()] == [("float64", 32), ("float16", 8)]


def test_a_variable_that_is_used_twice_is_found_once():
    def forward(features):
        with v1.variable_scope("shared", reuse=v1.AUTO_REUSE):
            return features @ weights() + features @ weights()

    assert list(traced(forward).variables) == ["shared/w"]


def test_the_description_of_a_model_shows_every_variable():
    assert traced(lambda x: x @ weights()).described() == {"variable w": "[4, 1] float32"}


def test_a_partitioner_of_the_model_does_not_partition():
    found = traced(lambda x: x @ tf.convert_to_tensor(weights(partitioner=v1.fixed_size_partitioner(2))))
    assert found.specs() == [VariableSpec("w", (4, 1), "float32", 4)]


def test_tracing_leaves_nothing_in_the_graph_of_the_caller():
    with tf.Graph().as_default() as graph:
        traced(lambda x: x @ weights())
        assert graph.get_operations() == []


@pytest.mark.parametrize(
    ("loss", "shown"),
    [
        (lambda o, y: tf.square(o - y), "(None, 1)"),
        (lambda o, y: tf.reshape(tf.reduce_mean(o), [1]), "(1,)"),
    ],
)
def test_a_loss_that_is_no_scalar_is_refused_with_its_shape(loss, shown):
    message = refusal(lambda x: x @ weights(), loss)
    assert "loss()" in message
    assert shown in message
    assert "tf.reduce_mean" in message


@pytest.mark.parametrize("value", [0.5, None, np.float32(1), "low"])
def test_a_loss_that_is_no_tensor_is_refused_and_shown(value):
    message = refusal(lambda x: x @ weights(), lambda o, y: value)
    assert "loss()" in message
    assert repr(value) in message
    assert "scalar" in message


def test_a_loss_that_is_an_integer_is_refused():
    message = refusal(lambda x: x @ weights(), lambda o, y: tf.cast(tf.reduce_sum(o), tf.int32))
    assert "int32" in message
    assert "floating-point" in message


def test_a_model_without_variables_is_refused():
    message = refusal(lambda x: x)
    assert "no trainable variable" in message
    assert "get_variable" in message


def test_a_model_without_trainable_variables_is_refused():
    assert "no trainable variable" in refusal(lambda x: x @ weights(trainable=False))


def test_a_constraint_is_refused_with_the_variable():
    message = refusal(lambda x: x @ weights(constraint=lambda value: value))
    assert "variable w" in message
    assert "constraint" in message


def test_a_loss_that_depends_on_no_variable_is_refused_with_the_variables():
    message = refusal(lambda x: tf.stop_gradient(x @ weights()) + tf.stop_gradient(weights("b", shape=[1])))
    assert "w, b" in message
    assert "depends on none" in message


def test_one_variable_that_the_loss_does_not_depend_on_is_not_learned_and_warned_of(caplog):
    with caplog.at_level(logging.WARNING, logger="ps_train"):
        found = traced(lambda x: x @ weights() + tf.stop_gradient(weights("frozen", shape=[1])))
    assert found.with_gradient() == ["w"]
    assert found.dense_trainable() == ["w", "frozen"]
    assert [record.getMessage() for record in caplog.records if "frozen" in record.getMessage()]


def test_a_variable_that_is_not_trainable_is_neither_learned_nor_pulled_nor_warned_of(caplog):
    with caplog.at_level(logging.WARNING, logger="ps_train"):
        found = traced(lambda x: x @ weights() + weights("mean", shape=[1], trainable=False))
    assert found.with_gradient() == found.dense_trainable() == ["w"]
    assert not found.variables["mean"].has_gradient
    assert not caplog.records


def test_a_sparse_gradient_is_warned_of(caplog):
    def forward(features):
        return tf.gather(weights("table", shape=[10, 1]), tf.cast(features[:, 0], tf.int32))

    with caplog.at_level(logging.WARNING, logger="ps_train"):
        assert traced(forward).with_gradient() == ["table"]
    assert any("table" in record.getMessage() and "sparse" in record.getMessage() for record in caplog.records)


def test_an_exception_of_the_models_own_code_passes_through():
    def forward(features):
        raise ZeroDivisionError("of the user")

    with pytest.raises(ZeroDivisionError, match="of the user"):
        traced(forward)


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
