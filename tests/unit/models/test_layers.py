"""The layers of the shipped models, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.models.layers import batch_norm, convolution
from tests.support.dtypes import values_cast_to

IMAGES = np.random.default_rng(1).normal(2.0, 3.0, size=(16, 5, 5, 4)).astype(np.float32)


def variables_of(session):
    return {variable.op.name: session.run(variable) for variable in v1.global_variables()}


def started():
    session = v1.Session()
    session.run(v1.global_variables_initializer())
    return session


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_is_that_of_numpy(stride):
    outputs = convolution(tf.constant(IMAGES), 6, "layer", stride=stride)
    with started() as session:
        found, weights = session.run(outputs), variables_of(session)["layer/weights"]
    assert weights.shape == (3, 3, 4, 6)
    padded = np.pad(IMAGES, [(0, 0), (1, 1), (1, 1), (0, 0)])
    places = range(0, 5, stride)
    expected = np.stack(
        [np.stack([np.tensordot(padded[:, i : i + 3, j : j + 3], weights, 3) for j in places], 1) for i in places], 1
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_weights_of_a_convolution_have_the_deviation_of_he():
    convolution(tf.zeros([1, 4, 4, 64]), 128, "layer")
    with started() as session:
        weights = variables_of(session)["layer/weights"]
    assert np.std(weights) == pytest.approx(np.sqrt(2 / (9 * 64)), rel=0.02)


def test_batch_norm_normalizes_by_the_batch_in_training_and_moves_the_averages():
    outputs = batch_norm(tf.constant(IMAGES), True, "norm", momentum=0.8)
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    mean, variance = IMAGES.mean(axis=(0, 1, 2)), IMAGES.var(axis=(0, 1, 2))
    unbiased = IMAGES.var(axis=(0, 1, 2), ddof=1)
    with started() as session:
        np.testing.assert_allclose(session.run(outputs), (IMAGES - mean) / np.sqrt(variance + 1e-5), atol=1e-4)
        session.run(updates)
        session.run(updates)
        found = variables_of(session)
    np.testing.assert_allclose(found["norm/mean"], (1 - 0.8**2) * mean, rtol=1e-4)
    np.testing.assert_allclose(found["norm/variance"], 0.8**2 + (1 - 0.8**2) * unbiased, rtol=1e-4)
    assert {variable.op.name for variable in v1.trainable_variables()} == {"norm/scale", "norm/offset"}


def test_batch_norm_uses_the_averages_outside_of_training_and_moves_nothing():
    outputs = batch_norm(tf.constant(IMAGES), False, "norm")
    assert not v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    values = {name: np.arange(1.0, 5.0, dtype=np.float32) + i for i, name in enumerate(("scale", "offset", "mean"))}
    values["variance"] = np.full(4, 9.0, np.float32)
    with started() as session:
        for variable in v1.global_variables():
            variable.load(values[variable.op.name.removeprefix("norm/")], session)
        found = session.run(outputs)
    expected = (IMAGES - values["mean"]) / np.sqrt(9.0 + 1e-5) * values["scale"] + values["offset"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("training", [False, True])
def test_layers_compute_in_the_dtype_of_the_weights_that_they_get(training):
    with values_cast_to(tf.bfloat16):
        outputs = batch_norm(convolution(tf.constant(IMAGES), 6, "layer"), training, "norm")
    assert outputs.dtype == tf.bfloat16
    assert {variable.dtype.base_dtype for variable in v1.global_variables()} == {tf.float32}
    gradients = tf.gradients(tf.reduce_sum(tf.cast(outputs, tf.float32) ** 3), v1.trainable_variables())
    narrow = outputs
    with v1.variable_scope("", reuse=True):
        wide = batch_norm(convolution(tf.constant(IMAGES), 6, "layer"), training, "norm")
    with started() as session:
        found, expected, slopes = session.run((tf.cast(narrow, tf.float32), wide, gradients))
        session.run(v1.get_collection(v1.GraphKeys.UPDATE_OPS))
    np.testing.assert_allclose(found, expected, rtol=0.1, atol=0.1)
    assert all(np.isfinite(slope).all() and slope.any() for slope in slopes)
