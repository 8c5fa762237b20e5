"""AUC, log-loss and calibration by their definitions (and scikit-learn), and intervals that cover the truth."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.saved.scoring.statistics import LEAST, METRICS, Pair, intervals


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, and two models of which the second one sees less noise; the first one has ties."""
    chance = np.random.default_rng(seed)
    logits = chance.normal(size=count)
    labels = (chance.random(count) < 1 / (1 + np.exp(-logits))).astype(float)
    first, second = (1 / (1 + np.exp(-(logits + chance.normal(scale=s, size=count)))) for s in (2.0, 0.5))
    return labels, np.round(first, 1), second


def auc_of_pairs(labels: np.ndarray, scores: np.ndarray) -> float:
    differences = scores[labels == 1][:, None] - scores[labels == 0][None]
    return float((differences > 0).mean() + (differences == 0).mean() / 2)


def test_the_numbers_are_those_of_their_definitions() -> None:
    labels, first, second = rows(400)
    found = Pair(labels, first, second).metrics()
    for number, scores in enumerate((first, second)):
        inside = np.clip(scores, LEAST, 1 - LEAST)
        losses = [-np.log(p if label else 1 - p) for label, p in zip(labels, inside, strict=True)]
        expected = {
            "auc": auc_of_pairs(labels, scores),
            "log_loss": np.mean(losses),
            "calibration": scores.sum() / labels.sum(),
        }
        assert {name: found[name][number] for name in METRICS} == pytest.approx(expected, rel=1e-12)


def test_the_numbers_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    labels, first, second = rows(2000)
    found = Pair(labels, first, second).metrics()
    assert found["auc"] == pytest.approx([metrics.roc_auc_score(labels, s) for s in (first, second)], abs=1e-12)
    clipped = [np.clip(s, LEAST, 1 - LEAST) for s in (first, second)]
    assert found["log_loss"] == pytest.approx([metrics.log_loss(labels, s) for s in clipped], abs=1e-9)


def test_weights_are_repeated_rows() -> None:
    labels, first, second = rows(60)
    weights = np.random.default_rng(1).integers(0, 4, 60)
    again = np.repeat(np.arange(60), weights)
    found = Pair(labels, first, second).metrics(weights.astype(float))
    expected = Pair(labels[again], first[again], second[again]).metrics()
    for name in METRICS:
        assert found[name] == pytest.approx(expected[name], rel=1e-12)


def test_an_interval_covers_the_difference_of_many_rows_and_has_its_seed() -> None:
    labels, first, second = rows(100_000, seed=9)
    truth = {name: b - a for name, (a, b) in Pair(labels, first, second).metrics().items()}
    covered = 0
    for seed in range(20):
        pair, numbers = Pair(*rows(500, seed=100 + seed)), np.arange(500)
        found = intervals({"all": (pair, numbers)}, 500, resamples=100, seed=seed)["all"]
        covered += found["auc"][0] <= truth["auc"] <= found["auc"][1]
    assert found == intervals({"all": (pair, numbers)}, 500, resamples=100, seed=19)["all"]
    assert found != intervals({"all": (pair, numbers)}, 500, resamples=100, seed=20)["all"]
    assert 16 <= covered <= 20, "19 of 20 are expected"


def test_a_paired_interval_is_narrower_than_the_noise_of_each_model() -> None:
    labels, _, second = rows(500)
    pair = Pair(labels, second, np.clip(second + 1e-4, 0, 1))
    found = intervals({"all": (pair, np.arange(500))}, 500, 50, 0)["all"]
    assert max(abs(end) for end in found["log_loss"]) < 1e-3 and found["auc"] == (0.0, 0.0)


def test_one_class_and_no_rows_have_no_auc() -> None:
    pair = Pair(np.zeros(3), np.full(3, 0.5), np.full(3, 0.25))
    found = pair.metrics()
    assert np.isnan(found["auc"]).all() and np.isnan(found["calibration"]).all()
    assert found["log_loss"] == pytest.approx([np.log(2), -np.log(0.75)])
    assert np.isnan(intervals({"": (pair, np.arange(3))}, 3, 5, 0)[""]["auc"]).all()
