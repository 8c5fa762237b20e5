"""Models that users bring: whatever they make their variables with, they train as in one plain session, and what is
scored and exported is what was trained."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.long import long
from tests.support.models.of_users import UserModel, check_export, check_scores, check_training, trained


def weights(name="w", shape=(4, 1), **options):
    return v1.get_variable(name, shape, **options)


def of_numbers(x):
    """tf.Variable of all kinds of values, some under names that are taken."""
    first = tf.Variable(np.full([4, 3], 0.1, np.float32), name="w")
    with tf.name_scope("layer"):
        second = tf.Variable(tf.random.normal([3, 3], stddev=0.3), name="w")
    with tf.name_scope("layer"):
        third = v1.Variable(lambda: tf.random.uniform([3, 1]), name="w")
        twice = tf.Variable(0.5, name="w")
    scale = tf.Variable([1.0])
    return tf.tanh(x @ first @ second) @ third * scale + twice + weights("b", [1])


def with_scopes(x):
    outputs = x
    for size in (3, 3, 1):
        with v1.variable_scope(None, default_name="layer"):
            outputs = outputs @ weights(shape=[outputs.shape[1], size])
    with v1.variable_scope("shared", reuse=tf.compat.v1.AUTO_REUSE):
        tied = weights(shape=[4, 4], regularizer=lambda w: 0.01 * tf.nn.l2_loss(w))
    with v1.variable_scope("shared", reuse=True):
        again = weights(shape=[4, 4])
    outputs += x @ weights("free", regularizer=lambda w: None)
    return outputs + tf.reduce_sum(x @ tied @ tf.transpose(again), 1, keepdims=True) * 0.1


def in_branches(x):
    with v1.variable_scope("branches"):
        found = tf.cond(
            tf.shape(x)[0] > 0,
            lambda: x @ weights("yes"),
            lambda: x @ weights("no") + weights("both", [1]),
        )
        return found + v1.cond(tf.shape(x)[0] > 100, lambda: tf.zeros([1]), lambda: weights("late", [1]))


def in_a_loop(x):
    def body(number, outputs):
        with v1.variable_scope("loop", reuse=v1.AUTO_REUSE):
            return number + 1, tf.tanh(outputs @ weights(shape=[4, 4]))

    _, found = tf.while_loop(lambda number, _: number < 3, body, [0, x])
    return found @ weights("out")


def in_a_function(x):
    @tf.function
    def layer(values):
        with v1.variable_scope("layer", reuse=v1.AUTO_REUSE):
            return values @ weights() + weights("b", [1])

    return layer(x)


def as_partitions(x):
    with v1.variable_scope("parts", partitioner=v1.fixed_size_partitioner(2)):
        whole = weights()
        found = x @ tf.concat(list(whole), 0) + x @ whole.as_tensor()
        rows = tf.nn.embedding_lookup(whole, tf.constant([0, 3]))
    return found + tf.reduce_sum(rows) + tf.reduce_sum(weights("v", partitioner=v1.fixed_size_partitioner(4)))


def without_partitions(x):
    """The same."""
    with v1.variable_scope("parts"):
        whole = weights()
    return 2 * x @ whole + whole[0] + whole[3] + tf.reduce_sum(weights("v"))


def as_variables(x):
    """Reads variables in all ways that there are."""
    w, b = weights(shape=[4, 2]), weights("b", [2])
    table = weights("table", [6, 2])
    ids = tf.cast(tf.abs(x[:, 0]) * 2, tf.int32) % 6
    found = tf.matmul(x, w.read_value()) + tf.nn.bias_add(x @ w.value(), b) + tf.nn.embedding_lookup(table, ids)
    found += table[1] + tf.gather(table, ids) + w[:1] * 2
    assert (w.name, w.op.name, w.get_shape().as_list(), w.shape.rank) == ("w:0", "w", [4, 2], 2)
    assert isinstance(w, tf.Variable) and w.dtype == tf.float32 and w.trainable
    return tf.reduce_sum(found, 1, keepdims=True)


def with_weight_decay(outputs, labels, loss):
    """Over the collection of all trainable variables, with a variable of the loss."""
    strength = weights("strength", [], initializer=v1.ones_initializer())
    decay = tf.add_n([tf.nn.l2_loss(one) for one in v1.trainable_variables()])
    assert len(v1.global_variables()) == len(v1.trainable_variables()) == 5
    return loss * tf.exp(-strength) + strength + 0.01 * decay


@pytest.mark.parametrize(
    ("forward", "accumulate"),
    [
        (of_numbers, 1),
        (of_numbers, 2),
        long(with_scopes, 1),
        long(with_scopes, 2),
        long(in_branches, 1),
        long(in_branches, 2),
        long(in_a_loop, 1),
        long(in_a_loop, 2),
        (as_variables, 1),
        long(as_variables, 2),
    ],
)
@pytest.mark.usual(1)
def test_it_trains_as_in_one_plain_session_is_scored_and_served(forward, accumulate, tmp_path: pathlib.Path) -> None:
    model = UserModel(forward)
    cluster = check_training(model, tmp_path, accumulate)
    check_scores(model, cluster)
    check_export(model, cluster, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("accumulate", [long(1), 2])
def test_a_loss_over_the_collections_of_variables_and_one_of_its_own(accumulate, tmp_path: pathlib.Path) -> None:
    def forward(x):
        return tf.tanh(x @ weights(shape=[4, 4]) + weights("b", [4])) @ weights("v") + weights("c", [1])

    model = UserModel(forward, with_weight_decay)
    cluster = check_training(model, tmp_path, accumulate)
    check_scores(model, cluster)
    check_export(model, cluster, tmp_path)


@pytest.mark.long
def test_get_variable_inside_of_a_function_is_shared_as_outside(tmp_path: pathlib.Path) -> None:
    """TensorFlow itself does not train what is made there."""

    def outside(x):
        with v1.variable_scope("layer"):
            return x @ weights() + weights("b", [1])

    model = UserModel(in_a_function)
    cluster = check_training(model, tmp_path, reference=UserModel(outside))
    check_scores(model, cluster)
    check_export(model, cluster, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("num_ps", [long(1), 2])
def test_a_partitioner_of_the_model_changes_nothing(num_ps: int, tmp_path: pathlib.Path) -> None:
    model = UserModel(as_partitions)
    cluster = check_training(model, tmp_path, num_ps=num_ps, reference=UserModel(without_partitions))
    check_scores(model, cluster)
    check_export(model, cluster, tmp_path)


@pytest.mark.long
def test_initial_values_of_variables_do_not_depend_on_where_they_live(tmp_path: pathlib.Path) -> None:
    def forward(x):
        first = tf.Variable(tf.random.normal([4, 6]))
        second = tf.Variable(lambda: tf.random.uniform([6, 1]), name="second")
        third = tf.Variable(2 * first.initialized_value(), name="third")
        return x @ first @ second + x @ third @ second

    values = []
    for number, num_ps in enumerate((1, 3)):
        (tmp_path / str(number)).mkdir()
        cluster = trained(UserModel(forward), tmp_path / str(number), num_ps=num_ps, partition_bytes=16, seed=5)
        values.append(cluster.initial)
        assert (len(cluster.plan.slices_of("Variable")) > 1) == (num_ps > 1)
    for name in ("Variable", "second", "third"):
        np.testing.assert_array_equal(values[0][name], values[1][name], err_msg=name)
    np.testing.assert_array_equal(values[0]["third"], 2 * values[0]["Variable"])
    assert values[0]["Variable"].std() > 0.5 and 0 < values[0]["second"].std() < 0.5
    (tmp_path / "other").mkdir()
    other = trained(UserModel(forward), tmp_path / "other", seed=6).initial
    assert not np.array_equal(other["Variable"], values[0]["Variable"])
