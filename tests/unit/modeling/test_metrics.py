"""Metrics against sorting and plain sums; and shards against the whole."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import metrics
from ps_train.models.clicks.synthetic import auc as sorted_auc


def measured(labels, logits, batch=100, make=metrics.of_clicks):
    """Values after all batches, and the local variables."""
    with tf.Graph().as_default(), v1.Session() as session:
        fed = v1.placeholder(tf.float32, [None]), v1.placeholder(tf.float32, [None])
        found = make(*fed)
        values, updates = ({name: pair[i] for name, pair in found.items()} for i in (0, 1))
        session.run(v1.local_variables_initializer())
        for begin in range(0, len(labels), batch):
            some = slice(begin, begin + batch)
            session.run(updates, dict(zip(fed, (labels[some], logits[some]), strict=True)))
        return session.run(values), session.run(v1.local_variables())


def clicks(count, seed=0, rate=-2.0, spread=2.0):
    random = np.random.default_rng(seed)
    logits = random.normal(rate, spread, count).astype(np.float32)
    return (random.random(count) < 1 / (1 + np.exp(-logits))).astype(np.float32), logits


@pytest.mark.parametrize(("rate", "spread"), [(-2.0, 2.0), (-6.0, 0.5), (0.0, 0.05), (3.0, 20.0)])
def test_all_three_against_plain_numpy(rate, spread):
    labels, logits = clicks(20_000, rate=rate, spread=spread)
    values, _ = measured(labels, logits)
    probabilities = 1 / (1 + np.exp(-logits.astype(float)))
    assert values["auc"] == pytest.approx(sorted_auc(labels, logits), abs=1e-4)
    assert values["log_loss"] == pytest.approx(
        np.mean(np.logaddexp(0, -logits.astype(float)) * labels + np.logaddexp(0, logits) * (1 - labels)), rel=1e-4
    )
    assert values["calibration"] == pytest.approx(probabilities.sum() / labels.sum(), rel=1e-5)


def test_scores_of_either_sign_and_zero_are_in_order():
    scores = np.array([-np.inf, -3e38, -2.0, -1e-30, -0.0, 1e-30, 2.0, 3e38, np.inf], np.float32)
    for border in range(1, len(scores)):
        labels = (np.arange(len(scores)) >= border).astype(np.float32)
        assert measured(labels, scores)[0]["auc"] == 1.0, border


def test_equal_scores_count_half():
    assert measured(np.array([0, 1, 1, 0], np.float32), np.ones(4, np.float32))[0]["auc"] == 0.5


def test_without_any_click_nothing_is_divided_by_zero():
    assert measured(np.zeros(3, np.float32), np.ones(3, np.float32))[0]["auc"] == 0
    assert measured(np.zeros(3, np.float32), np.ones(3, np.float32))[0]["calibration"] == 0


def test_the_sums_of_two_shards_are_those_of_the_whole():
    labels, logits = clicks(1_000)
    whole, one, other = (
        measured(labels[part], logits[part])[1] for part in (slice(None), slice(0, 300), slice(300, None))
    )
    for a, b, both in zip(one, other, whole, strict=True):
        np.testing.assert_allclose(a + b, both, rtol=1e-6)


def of_probabilities(labels, logits):
    return {
        "log_loss": metrics.log_loss(labels, logits),
        "normalized_entropy": metrics.normalized_entropy(labels, logits),
        **metrics.calibration_bins(labels, tf.sigmoid(tf.cast(logits, tf.float64))),
    }


def test_losses_and_bins_are_those_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.metrics")
    calibration_curve = pytest.importorskip("sklearn.calibration").calibration_curve
    labels, logits = clicks(20_000, spread=1.0)
    probabilities = 1 / (1 + np.exp(-logits.astype(float)))
    values, _ = measured(labels, logits, 777, of_probabilities)
    loss = sklearn.log_loss(labels, probabilities)
    base = sklearn.log_loss(labels, np.full(len(labels), labels.mean(dtype=float)))
    assert values["log_loss"] == pytest.approx(loss, abs=1e-9)
    assert values["normalized_entropy"] == pytest.approx(loss / base, abs=1e-9)
    observed, predicted = calibration_curve(labels, probabilities, n_bins=10)
    full = values["bin_examples"] > 0
    assert 5 < full.sum() < 10, "one bin should be empty"
    assert values["bin_observed"][full] == pytest.approx(observed, abs=1e-9)
    assert values["bin_predicted"][full] == pytest.approx(predicted, abs=1e-9)
    assert not values["bin_observed"][~full].any()
    shares = values["bin_examples"][full] / len(labels)
    assert values["calibration_error"] == pytest.approx(np.sum(shares * np.abs(observed - predicted)), abs=1e-9)


def test_a_border_belongs_to_the_lower_bin_and_one_class_has_no_entropy():
    edges = np.array([0.0, 0.25, 0.5, 0.75, 1.0], np.float32)
    found, _ = measured(np.ones(5, np.float32), edges, 5, lambda y, p: metrics.calibration_bins(y, p, 4))
    assert found["bin_examples"].tolist() == [2, 1, 1, 1]
    assert measured(np.ones(3, np.float32), np.ones(3, np.float32), 3, of_probabilities)[0]["normalized_entropy"] == 0
    empty = measured(np.zeros(0, np.float32), np.zeros(0, np.float32), 3, of_probabilities)[0]
    assert not any(np.any(value) for value in empty.values())


def of_weighted(labels, logits, weights):
    chances = tf.sigmoid(tf.cast(logits, tf.float64))
    return {
        **metrics.of_clicks(labels, logits, weights),
        "normalized_entropy": metrics.normalized_entropy(labels, logits, weights),
        **metrics.calibration_bins(labels, chances, weights=weights),
    }


def test_weights_are_those_of_scikit_learn_and_a_number_changes_nothing():
    sklearn = pytest.importorskip("sklearn.metrics")
    labels, logits = clicks(3_000, spread=1.0)
    weights = np.random.default_rng(5).integers(0, 4, len(labels)).astype(np.float32)
    chances = 1 / (1 + np.exp(-logits.astype(float)))
    with tf.Graph().as_default(), v1.Session() as session:
        found = of_weighted(tf.constant(labels)[:, None], tf.constant(logits)[:, None], tf.constant(weights)[:, None])
        tripled = {f"{name} tripled": pair for name, pair in of_weighted(labels, logits, 3).items()}
        plain = {f"{name} plain": pair for name, pair in of_weighted(labels, logits, None).items()}
        pairs = {**found, **tripled, **plain}
        session.run(v1.local_variables_initializer())
        session.run([update for _, update in pairs.values()])
        values = session.run({name: value for name, (value, _) in pairs.items()})
        with pytest.raises(ValueError, match="weights has the shape"):
            metrics.log_loss(tf.zeros([3, 1]), tf.zeros([3, 1]), tf.zeros([3]))
    loss = sklearn.log_loss(labels, chances, sample_weight=weights)
    rate = np.average(labels.astype(float), weights=weights)
    assert values["log_loss"] == pytest.approx(loss, abs=1e-6)
    assert values["normalized_entropy"] == pytest.approx(
        loss / sklearn.log_loss(labels, np.full(len(labels), rate), sample_weight=weights), abs=1e-6
    )
    assert values["auc"] == pytest.approx(sklearn.roc_auc_score(labels, logits, sample_weight=weights), abs=1e-4)
    assert values["calibration"] == pytest.approx((weights * chances).sum() / (weights * labels).sum(), abs=1e-6)
    bins = np.ceil(chances * 10).astype(int) - 1
    np.testing.assert_allclose(values["bin_examples"], np.bincount(bins, weights, 10), atol=1e-6)
    for name in found:
        factor = 3 if name == "bin_examples" else 1
        np.testing.assert_allclose(values[f"{name} tripled"], factor * values[f"{name} plain"], atol=1e-9)


def of_all(labels, logits):
    return {
        **of_weighted(labels, logits, None),
        "grouped_auc": metrics.grouped_auc(labels, logits, tf.zeros_like(labels, tf.int64)),
    }


@pytest.mark.parametrize("dtype", [tf.bool, tf.int32, tf.float64, tf.bfloat16], ids=lambda dtype: dtype.name)
def test_labels_and_logits_of_any_dtype_have_the_metrics_of_floats(dtype):
    labels, logits = clicks(500)
    logits = np.round(logits)  # bfloat16 and int32 have them
    of_logits = tf.float32 if dtype == tf.bool else dtype
    values, _ = measured(labels, logits, 100, of_all)
    others, _ = measured(labels, logits, 100, lambda y, z: of_all(tf.cast(y, dtype), tf.cast(z, of_logits)))
    assert 0.5 < values["auc"] == pytest.approx(values["grouped_auc"], abs=1e-9)
    for name, value in values.items():
        np.testing.assert_allclose(others[name], value, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("of_nan", [np.nan, -np.nan])
def test_a_score_that_is_not_a_number_makes_every_metric_so(of_nan):
    labels, logits = clicks(300)
    logits[123] = of_nan
    values, _ = measured(labels, logits, 100, of_all)
    assert np.isnan([values[name] for name in values if not name.startswith("bin_")]).all(), values


def test_infinite_scores_have_the_loss_of_the_limit() -> None:
    infinite = np.inf
    for labels, logits, weights, expected in (
        ([1, 0, 1], [infinite, -infinite, 0], None, np.log(2) / 3),
        ([1, 0], [-infinite, 0], None, infinite),
        ([0, 0], [infinite, 0], None, infinite),
        ([0.5, 0], [infinite, 0], None, infinite),
        ([1, 0], [-infinite, 0], [0.0, 2.0], np.log(2)),
        ([1, 0], [np.nan, 0], None, np.nan),
        ([1, 0], [800, -800], None, 0),
        ([0, 1], [800, -800], None, 800),
    ):

        def make(labels, logits, weights=weights):
            return {"loss": metrics.log_loss(labels, logits, None if weights is None else tf.constant(weights))}

        found, _ = measured(np.array(labels, np.float32), np.array(logits, np.float32), make=make)
        assert found["loss"] == pytest.approx(expected, rel=1e-9, nan_ok=True)
