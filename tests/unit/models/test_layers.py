"""The layers of the shipped models, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.models.layers import attention_pooling, batch_norm, convolution, cross, experts, fm, gated
from tests.support.models.dtypes import values_cast_to

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


VECTORS = np.random.default_rng(2).normal(size=(6, 5, 3)).astype(np.float32)


def test_a_factorization_machine_sums_the_products_of_all_pairs():
    with v1.Session() as session:
        found = session.run(fm(tf.constant(VECTORS)))
    pairs = [(i, j) for i in range(5) for j in range(i)]
    np.testing.assert_allclose(found, sum((VECTORS[:, i] * VECTORS[:, j]).sum(1) for i, j in pairs), rtol=1e-4)


def test_cross_layers_are_those_of_numpy():
    inputs = VECTORS[:, 0]
    outputs = cross(tf.constant(inputs), 2)
    with started() as session:
        session.run([v.assign(tf.random.normal(v.shape, seed=1)) for v in v1.trainable_variables()])
        found, values = session.run(outputs), variables_of(session)
    x = inputs
    for layer in ("layer1", "layer2"):
        x = inputs * (x @ values[f"cross/{layer}/weights"] + values[f"cross/{layer}/bias"]) + x
    np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-5)


def test_attention_pools_a_ragged_history_by_weights_of_query_and_vector():
    history = tf.RaggedTensor.from_row_lengths(VECTORS[:, 1], [0, 2, 1, 0, 3, 0])
    query = VECTORS[:, 0]
    outputs = attention_pooling(tf.constant(query), history, (4,))
    with started() as session:
        found, values = session.run(outputs), variables_of(session)
    expected, begin = np.zeros((6, 3)), 0
    for example, length in enumerate([0, 2, 1, 0, 3, 0]):
        for key in VECTORS[begin : begin + length, 1]:
            asked = query[example]
            hidden = np.concatenate([asked, key, asked - key, asked * key]) @ values["attention/hidden1/weights"]
            expected[example] += (np.maximum(hidden, 0) @ values["attention/logits/weights"]) * key
        begin += length
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_gated_experts_are_those_of_numpy_and_begin_with_the_deviation_of_he():
    inputs = VECTORS[:, 0]
    outputs = gated(tf.constant(inputs), experts(tf.constant(inputs), 4, 7), "gate")
    with v1.variable_scope("wide"):
        experts(tf.zeros([1, 100]), 5, 200)
    with started() as session:
        found, values = session.run(outputs), variables_of(session)
    each = np.stack([np.maximum(inputs @ values["experts/weights"][i], 0) for i in range(4)], 1)
    logits = inputs @ values["gate/weights"]
    weights = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(found, (weights[:, :, None] * each).sum(1), rtol=1e-4, atol=1e-5)
    assert np.std(values["wide/experts/weights"]) == pytest.approx(np.sqrt(2 / 100), rel=0.02)
