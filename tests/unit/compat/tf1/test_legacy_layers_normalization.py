"""Batch normalization: its outputs and its moving averages against numpy (point 71)."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1.contrib import ContribModule
from ps_train.compat.tf1.legacy import keras_names

layers = ContribModule("tensorflow.layers", {}, keras_names("layers"))

RANDOM = np.random.default_rng(3)
ROWS = RANDOM.normal(2.0, 3.0, size=(50, 4)).astype(np.float32)
IMAGES = RANDOM.normal(-1.0, 2.0, size=(6, 3, 5, 4)).astype(np.float32)


def normal(x, axes):
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-3)


@pytest.mark.parametrize(
    ("x", "options", "bessel"),
    [
        (ROWS, {}, 1.0),
        (IMAGES, {"fused": False}, 1.0),
        (IMAGES, {}, 90 / 89),
        (IMAGES.transpose(0, 3, 1, 2), {"axis": 1}, 90 / 89),
        (IMAGES.transpose(0, 3, 1, 2), {"axis": 1, "fused": False}, 1.0),
    ],
    ids=["rows", "plain", "fused", "fused_first", "plain_first"],
)
def test_point_71_batch_normalization_is_the_formula(run, x, options, bessel):
    axis = options.get("axis", x.ndim - 1)
    axes = tuple(each for each in range(x.ndim) if each != axis)
    outputs = layers.batch_normalization(tf.constant(x), training=True, **options)
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    np.testing.assert_allclose(run(outputs), normal(x, axes), atol=2e-4)
    assert run.values().keys() == {
        f"batch_normalization/{name}" for name in ("gamma", "beta", "moving_mean", "moving_variance")
    }
    run(updates)
    found = run.values()
    np.testing.assert_allclose(found["batch_normalization/moving_mean"], 0.01 * x.mean(axes), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(
        found["batch_normalization/moving_variance"], 0.99 + 0.01 * bessel * x.var(axes), rtol=1e-4
    )
    assert {variable.op.name.rpartition("/")[2] for variable in v1.trainable_variables()} == {"gamma", "beta"}


@pytest.mark.parametrize("x", [ROWS, IMAGES], ids=["rows", "fused"])
def test_point_71_evaluation_uses_the_averages(run, x):
    training = v1.placeholder(tf.bool, [])
    outputs = layers.batch_normalization(tf.constant(x), momentum=0.5, training=training, name="bn")
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    run(updates, {training: True})
    found = run.values()
    expected = (x - found["bn/moving_mean"]) / np.sqrt(found["bn/moving_variance"] + 1e-3)
    np.testing.assert_allclose(run(outputs, {training: False}), expected, atol=2e-4)
    run(updates, {training: False})
    np.testing.assert_allclose(run.values()["bn/moving_mean"], found["bn/moving_mean"], rtol=1e-5)


def test_without_training_there_is_no_update(run):
    layers.batch_normalization(tf.constant(ROWS), center=False, scale=False)
    assert v1.get_collection(v1.GraphKeys.UPDATE_OPS) == []
    assert len(v1.global_variables()) == 2
