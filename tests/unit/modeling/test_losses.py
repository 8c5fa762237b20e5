"""Losses against loops in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import ModelError, losses

RANDOM = np.random.default_rng(3)
LABELS, LOGITS = (RANDOM.random(60) < 0.3).astype(np.float32), RANDOM.normal(0, 3, 60).astype(np.float32)
GROUPS = RANDOM.integers(0, 9, 60)
GROUPS[:3] = [11, 12, 12]  # a group of one
PROBABILITIES = 1 / (1 + np.exp(-LOGITS.astype(float)))


def value_of(loss):
    with v1.Session(graph=loss.graph) as session:
        return session.run(loss)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def entropy(labels, probabilities, weight=1.0):
    return -(weight * labels * np.log(probabilities) + (1 - labels) * np.log(1 - probabilities))


@pytest.mark.parametrize(("smoothing", "weight"), [(0.0, 1.0), (0.1, 1.0), (0.2, 5.0)])
def test_smoothing_and_a_class_weight_are_those_of_numpy(smoothing, weight):
    found = value_of(losses.sigmoid(LABELS, tf.constant(LOGITS), smoothing, weight))
    expected = entropy(LABELS * (1 - smoothing) + smoothing / 2, PROBABILITIES, weight)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("gamma", "alpha"), [(0.0, None), (2.0, None), (1.5, 0.25)])
def test_the_focal_loss_is_that_of_numpy(gamma, alpha):
    found = value_of(losses.focal(LABELS, tf.constant(LOGITS), gamma, alpha))
    own = np.where(LABELS == 1, PROBABILITIES, 1 - PROBABILITIES)
    weights = 1.0 if alpha is None else np.where(LABELS == 1, alpha, 1 - alpha)
    np.testing.assert_allclose(found, -weights * (1 - own) ** gamma * np.log(own), rtol=1e-4, atol=1e-5)


def test_the_focal_loss_of_extreme_logits_and_its_gradient_are_finite():
    logits = tf.constant([-200.0, -50.0, 0.0, 50.0, 200.0] * 2)
    loss = losses.focal(tf.constant([0.0] * 5 + [1.0] * 5), logits, gamma=0.5)
    assert np.isfinite(value_of(loss)).all() and np.isfinite(value_of(tf.gradients(loss, logits)[0])).all()


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_the_gradient_of_the_focal_loss_is_that_of_numpy_in_float64_also_at_huge_logits(gamma):
    own = np.array([-1000.0, -80.0, -20.0, -1.0, 0.0, 1.0, 5.0, 20.0, 28.0, 1000.0])  # logits of the example's class
    p_log, q_log = -np.logaddexp(0, -own), -np.logaddexp(0, own)  # log of p and of 1 - p
    expected_loss = -np.exp(gamma * q_log) * p_log
    expected = -np.exp((gamma + 1) * q_log) + gamma * np.exp(gamma * q_log + p_log) * p_log
    for label, sign in ((1.0, 1), (0.0, -1)):
        logits = tf.constant(sign * own, tf.float32)
        loss = losses.focal(tf.fill(own.shape, label), logits, gamma)
        np.testing.assert_allclose(value_of(loss), expected_loss, rtol=1e-5, atol=1e-37)
        np.testing.assert_allclose(value_of(tf.gradients(loss, logits)[0]), sign * expected, rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5, 0.0]])
def test_smoothing_over_several_classes_is_that_of_numpy(weights):
    logits, classes = RANDOM.normal(0, 2, (30, 4)).astype(np.float32), RANDOM.integers(0, 4, 30)
    found = value_of(losses.softmax(tf.constant(classes), tf.constant(logits), 0.1, weights))
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    expected = -((np.eye(4)[classes] * 0.9 + 0.1 / 4) * logs).sum(1) * (
        1 if weights is None else np.take(weights, classes)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["ints", "strings"])
def test_pairs_and_lists_within_groups_are_those_of_loops(kind):
    groups = tf.constant(GROUPS if kind == "ints" else [f"g{group}" for group in GROUPS])
    grades = LABELS + (GROUPS % 3 == 0) * LABELS  # some groups have labels of 2
    pairs = [
        np.log1p(np.exp(float(LOGITS[j]) - float(LOGITS[i])))
        for i in range(60)
        for j in range(60)
        if GROUPS[i] == GROUPS[j] and grades[i] > grades[j]
    ]
    lists = []
    for group in np.unique(GROUPS):
        y, s = grades[group == GROUPS], LOGITS[group == GROUPS].astype(float)
        if y.sum():
            lists.append(-(y / y.sum() * (s - np.log(np.exp(s).sum()))).sum())
    assert 0 < len(lists) < len(np.unique(GROUPS)) and len(pairs) > 50
    scores = tf.constant(LOGITS)
    assert value_of(losses.pairwise(grades, scores, groups)) == pytest.approx(np.mean(pairs), rel=1e-5)
    assert value_of(losses.listwise(grades, scores, groups)) == pytest.approx(np.mean(lists), rel=1e-5)


def test_a_batch_without_a_pair_or_a_click_has_no_loss_and_a_finite_gradient():
    scores = tf.constant([1e4, -1e4, 3.0])
    for rank in (losses.pairwise, losses.listwise):
        loss = rank(tf.zeros(3), scores, tf.constant([1, 1, 2]))
        assert value_of(loss) == 0 and not value_of(tf.gradients(loss, scores)[0]).any()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: losses.sigmoid(LABELS, LOGITS, smoothing=1.5),
        lambda: losses.sigmoid(LABELS, LOGITS, positive_weight=-1),
        lambda: losses.focal(LABELS, LOGITS, gamma=-1),
        lambda: losses.focal(LABELS, LOGITS, alpha=2),
        lambda: losses.softmax(tf.constant([0]), tf.constant([[1.0, 2.0]]), class_weights=[1.0]),
    ],
)
def test_a_wrong_argument_is_refused_in_one_line(wrong):
    with pytest.raises(ModelError, match=r"use a number|give one each"):
        wrong()
