"""The functions of contrib.layers against plain formulas."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1 import contrib_layers

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("regularizer", "penalty"),
    [(contrib_layers.l2_regularizer, 12.5), (contrib_layers.l1_regularizer, 7.0)],
    ids=["l2", "l1"],
)
def test_a_regularizer_is_its_penalty(run, regularizer, penalty):
    assert run(regularizer(0.1)(tf.constant([3.0, -4.0]))) == pytest.approx(0.1 * penalty)
    assert regularizer(0.0)(tf.constant([1.0])) is None
    for scale, problem in ((-1.0, "negative"), (1, "not a float")):
        with pytest.raises(ValueError, match=problem):
            regularizer(scale)


@pytest.mark.parametrize("uniform", [True, False])
def test_xaviers_deviation_keeps_gradients(run, uniform):
    values = run(v1.get_variable("w", [400, 200], initializer=contrib_layers.xavier_initializer(uniform, seed=1)))
    deviation = np.sqrt(2 / 600) if uniform else 0.88 * np.sqrt(1.3 * 2 / 600)  # a normal one is cut at 2 deviations
    assert values.std() == pytest.approx(deviation, rel=0.02)


@pytest.mark.parametrize(("mode", "count"), [("FAN_IN", 400), ("FAN_OUT", 200), ("FAN_AVG", 300)])
def test_variances_are_those_of_contrib(run, mode, count):
    uniform = contrib_layers.variance_scaling_initializer(3.0, mode, uniform=True, seed=1)
    normal = contrib_layers.variance_scaling_initializer(mode=mode, seed=1)
    first, second = run(
        [v1.get_variable(f"w{n}", [400, 200], initializer=each) for n, each in enumerate((uniform, normal))]
    )
    assert np.abs(first).max() == pytest.approx(np.sqrt(9 / count), rel=0.01)
    assert np.abs(second).max() == pytest.approx(2 * np.sqrt(1.3 * 2 / count), rel=0.01)
    with pytest.raises(ValueError, match="use one of FAN_IN, FAN_OUT, FAN_AVG"):
        contrib_layers.variance_scaling_initializer(mode="fan")


def test_fully_connected_has_contribs_names_and_relu(run):
    outputs = contrib_layers.fully_connected(
        X, 4, weights_regularizer=contrib_layers.l2_regularizer(0.5), variables_collections=["mine"]
    )
    found = run.values()
    assert found.keys() == {"fully_connected/weights", "fully_connected/biases"}
    np.testing.assert_allclose(run(outputs), np.maximum(X @ found["fully_connected/weights"], 0), atol=1e-5)
    losses = run(v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES))
    np.testing.assert_allclose(losses, [0.25 * (found["fully_connected/weights"] ** 2).sum()], rtol=1e-5)
    assert len(v1.get_collection("mine")) == 2


def test_a_normalizer_takes_the_place_of_the_biases(run):
    outputs = contrib_layers.fully_connected(
        X, 4, activation_fn=None, normalizer_fn=contrib_layers.batch_norm, scope="fc"
    )
    found = run.values()
    assert found.keys() == {"fc/weights", *(f"fc/BatchNorm/{n}" for n in ("beta", "moving_mean", "moving_variance"))}
    product = X @ found["fc/weights"]
    expected = (product - product.mean(0)) / np.sqrt(product.var(0) + 0.001)
    np.testing.assert_allclose(run(outputs), expected, atol=1e-4)
    assert len(v1.get_collection(v1.GraphKeys.UPDATE_OPS)) == 2


def test_updates_of_batch_norm_are_made_at_once_without_a_collection(run):
    outputs = contrib_layers.batch_norm(tf.constant(X), decay=0.5, scale=True, updates_collections=None)
    run(outputs)
    np.testing.assert_allclose(run.values()["BatchNorm/moving_mean"], 0.5 * X.mean(0), rtol=1e-4, atol=1e-6)
    assert v1.get_collection(v1.GraphKeys.UPDATE_OPS) == []


def test_updates_of_batch_norm_go_where_asked(run):
    contrib_layers.batch_norm(tf.constant(X), updates_collections="mine")
    assert len(v1.get_collection("mine")) == 2 and v1.get_collection(v1.GraphKeys.UPDATE_OPS) == []
    with pytest.raises(ValueError, match="zero_debias_moving_mean of batch_norm is not supported"):
        contrib_layers.batch_norm(tf.constant(X), zero_debias_moving_mean=True)


def test_flatten_and_dropout_take_the_arguments_of_contrib(run):
    flat = contrib_layers.flatten(tf.ones([2, 3, 4]), outputs_collections="flat", scope="made")
    assert flat.shape == [2, 12] and v1.get_collection("flat") == [flat] and flat.op.name.startswith("made/")
    first, again = (contrib_layers.dropout(tf.ones([1000]), 0.25, scope="drop", seed=3) for _ in range(2))
    kept = contrib_layers.dropout(tf.ones([1000]), 0.25, is_training=False, outputs_collections="kept")
    values, same, ones = run([first, again, kept])
    assert set(np.unique(values)) == {0, 4} and 650 < (values == 0).sum() < 850
    np.testing.assert_array_equal(values, same)
    assert np.all(ones == 1) and v1.get_collection("kept") == [kept]
