"""tf.layers of tf-keras: names, initial values, collections, and numbers against plain formulas (point 71)."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1.contrib import ContribModule
from ps_train.compat.tf1.legacy import keras_names

layers = ContribModule("tensorflow.layers", {}, keras_names("layers"))

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def test_point_71_dense_is_a_product_with_stocks_names(run):
    outputs = layers.dense(tf.constant(X), 4, tf.nn.relu, name="hidden")
    again = layers.dense(outputs, 2, use_bias=False)
    third = layers.dense(outputs, 2)
    found = run.values()
    assert {name: value.shape for name, value in found.items()} == {
        "hidden/kernel": (3, 4),
        "hidden/bias": (4,),
        "dense/kernel": (4, 2),
        "dense_1/kernel": (4, 2),
        "dense_1/bias": (2,),
    }
    hidden = np.maximum(X @ found["hidden/kernel"], 0)
    np.testing.assert_allclose(run(outputs), hidden, rtol=1e-5)
    np.testing.assert_allclose(run(again), hidden @ found["dense/kernel"], rtol=1e-4, atol=1e-6)
    assert run(third).shape == (5, 2)


def test_point_71_initial_values_are_glorots_and_zero(run):
    layers.dense(tf.zeros([1, 300]), 200)
    found = run.values()
    limit = np.sqrt(6 / 500)
    assert np.abs(found["dense/kernel"]).max() <= limit
    assert found["dense/kernel"].std() == pytest.approx(limit / np.sqrt(3), rel=0.02)
    assert not found["dense/bias"].any()


def test_point_71_dense_of_higher_rank_acts_on_the_last_dimension(run):
    x = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)
    outputs = layers.dense(tf.constant(x), 2)
    assert outputs.shape.as_list() == [2, 4, 2]
    np.testing.assert_allclose(run(outputs), x @ run.values()["dense/kernel"], rtol=1e-4, atol=1e-6)


def test_point_71_variables_are_shared_where_asked(run):
    first = layers.dense(tf.constant(X), 2, name="shared")
    second = layers.dense(tf.constant(X), 2, name="shared", reuse=True)
    np.testing.assert_array_equal(run(first), run(second))
    assert len(v1.global_variables()) == 2
    with pytest.raises(ValueError, match="already exists"):
        layers.dense(tf.constant(X), 2, name="shared")


def test_point_71_regularizers_constraints_and_scopes_are_kept(run):
    with v1.variable_scope("tower", initializer=v1.ones_initializer()):
        layers.dense(
            tf.constant(X),
            2,
            kernel_regularizer=lambda w: 0.5 * tf.reduce_sum(w),
            activity_regularizer=tf.reduce_sum,
            kernel_constraint=tf.abs,
            trainable=False,
        )
    losses = v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES)
    np.testing.assert_allclose(run(losses), [0.5 * 6, 2 * X.sum() / len(X)], rtol=1e-4)
    assert v1.trainable_variables() == []
    kernel = v1.global_variables("tower/dense/kernel")[0]
    assert kernel.constraint is tf.abs and (run(kernel) == 1).all()


def test_an_unknown_size_is_refused(run):
    with pytest.raises(ValueError, match="last dimension of the inputs to a Dense layer should be defined"):
        layers.dense(v1.placeholder(tf.float32, [None, None]), 3)


def test_units_given_as_text_are_converted(run):
    outputs = layers.dense(tf.constant(X), "4", use_bias=False)
    assert outputs.shape.as_list() == [5, 4]
    np.testing.assert_allclose(run(outputs), X @ run.values()["dense/kernel"], rtol=1e-4, atol=1e-6)
    with pytest.raises(ValueError, match="64,32"):
        layers.dense(tf.constant(X), "64,32")


def test_an_unknown_argument_is_refused(run):
    with pytest.raises(TypeError, match="activaton"):
        layers.dense(tf.constant(X), 3, activaton=None)


@pytest.mark.parametrize("as_tensor", [False, True])
def test_point_71_dropout_acts_in_training_alone(run, as_tensor):
    ones = tf.ones([100, 100])
    training = v1.placeholder_with_default(True, []) if as_tensor else True
    dropped = layers.dropout(ones, 0.25, training=training)
    values = run(dropped)
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / 0.75)}
    assert (values == 0).mean() == pytest.approx(0.25, abs=0.02)
    still = run(dropped, {training: False}) if as_tensor else run(layers.dropout(ones, 0.25))
    assert (still == 1).all()


def test_point_71_flatten_keeps_the_batch(run):
    x = np.arange(24.0).reshape(2, 3, 4).astype(np.float32)
    np.testing.assert_array_equal(run(layers.flatten(tf.constant(x))), x.reshape(2, 12))
    given = v1.placeholder(tf.float32, [None, 3, 4])
    flat = layers.flatten(given)
    assert flat.shape.as_list() == [None, 12]
    np.testing.assert_array_equal(run(flat, {given: x}), x.reshape(2, 12))
    first = layers.flatten(tf.constant(x), data_format="channels_first")
    np.testing.assert_array_equal(run(first), x.transpose(0, 2, 1).reshape(2, 12))


def test_flatten_of_an_unknown_size(run):
    given = v1.placeholder(tf.float32, [None, None, 4])
    assert run(layers.flatten(given), {given: np.zeros([2, 3, 4])}).shape == (2, 12)
