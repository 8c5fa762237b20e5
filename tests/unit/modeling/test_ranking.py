"""Metrics of ranked rows against scikit-learn, and against the mean over all orders of equal scores."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ps_train.modeling.ranking import Ranked
from tests.support.long import long


def rows(count=3000, groups=200, seed=0):
    """Labels, scores with many ties, and groups, some of one row or one class."""
    random = np.random.default_rng(seed)
    sizes = random.integers(0, groups, count) * random.integers(0, 2, count)
    return (random.random(count) < 0.3).astype(np.float32), np.round(random.normal(size=count), 1), sizes


def of_each_group(labels, scores, groups):
    for group in np.unique(groups):
        rows = groups == group
        yield labels[rows], scores[rows]


def test_auc_within_groups_is_that_of_scikit_learn_weighted_by_rows():
    sklearn = pytest.importorskip("sklearn.metrics")
    labels, scores, groups = rows()
    two = [(y, s) for y, s in of_each_group(labels, scores, groups) if 0 < y.sum() < len(y)]
    assert 50 < len(two) < len(np.unique(groups))
    expected = np.average([sklearn.roc_auc_score(*one) for one in two], weights=[len(y) for y, _ in two])
    assert Ranked(labels, scores, groups).auc() == pytest.approx(expected, abs=1e-12)
    assert Ranked(labels, scores).auc() == pytest.approx(sklearn.roc_auc_score(labels, scores), abs=1e-12)


@pytest.mark.parametrize("k", [3, long(1), long(1000)])
def test_ndcg_is_that_of_scikit_learn(k):
    sklearn = pytest.importorskip("sklearn.metrics")
    labels, scores, groups = rows(1000)
    labels = labels * np.random.default_rng(1).integers(1, 5, len(labels))
    some = [(y, s) for y, s in of_each_group(labels, scores, groups) if y.sum() and len(y) > 1]
    alone = [1.0 for y, _ in of_each_group(labels, scores, groups) if y.sum() and len(y) == 1]
    expected = np.mean([*(sklearn.ndcg_score([y], [s], k=k) for y, s in some), *alone])
    assert Ranked(labels, scores, groups).ndcg_at(k) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("k", [3, long(1), long(1000)])
def test_precision_and_recall_without_ties_are_those_of_scikit_learn(k):
    sklearn = pytest.importorskip("sklearn.metrics")
    labels, _, groups = rows(1000)
    scores = np.random.default_rng(2).normal(size=len(labels))
    precisions, recalls = [], []
    for y, s in of_each_group(labels, scores, groups):
        best = np.argsort(np.argsort(-s)) < k
        precisions.append(sklearn.precision_score(y, best))
        recalls += [sklearn.recall_score(y, best)] if y.sum() else []
    ranked = Ranked(labels, scores, groups)
    assert ranked.precision_at(k) == pytest.approx(np.mean(precisions), abs=1e-12)
    assert ranked.recall_at(k) == pytest.approx(np.mean(recalls), abs=1e-12)


def test_equal_scores_count_as_the_mean_over_their_orders():
    labels, scores = np.array([1.0, 0, 0, 3, 1]), np.array([2.0, 1, 1, 1, 0])
    orders = [(0, *order, 4) for order in itertools.permutations([1, 2, 3])]
    precisions = [np.mean(labels[list(order[:2])] > 0) for order in orders]
    ideal = 3 + 1 / np.log2(3)
    gains = [labels[order[0]] + labels[order[1]] / np.log2(3) for order in orders]
    ranked = Ranked(labels, scores, np.zeros(5, int))
    assert ranked.precision_at(2) == pytest.approx(np.mean(precisions))
    assert ranked.recall_at(2) == pytest.approx(np.mean(precisions) * 2 / 3)
    assert ranked.ndcg_at(2) == pytest.approx(np.mean(gains) / ideal)


def test_weights_count_rows_several_times():
    labels, scores, groups = rows(500, 20)
    weights = np.random.default_rng(3).integers(0, 4, len(labels))
    several = [np.repeat(one, weights) for one in (labels, scores, groups)]
    assert Ranked(labels, scores, groups).auc(weights.astype(float)) == pytest.approx(Ranked(*several).auc())


def test_what_is_not_defined_is_not_a_number():
    none = np.zeros(0)
    for ranked in (Ranked(none, none, none), Ranked(none, none), Ranked(np.zeros(3), np.ones(3), np.arange(3))):
        assert np.isnan([ranked.auc(), ranked.recall_at(2), ranked.ndcg_at(2)]).all()
    assert np.isnan(Ranked(none, none, none).precision_at(2))
    assert Ranked(np.zeros(3), np.ones(3), np.arange(3)).precision_at(2) == 0
