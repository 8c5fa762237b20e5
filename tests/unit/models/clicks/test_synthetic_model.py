"""Drawn clicks have the signal that the model of the clicks plants in them."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.models.clicks.synthetic import auc
from ps_train.models.clicks.synthetic_model import Clicks, SyntheticClickModel, identities


def sigmoid(logits):
    return 1 / (1 + np.exp(-logits))


@pytest.fixture(scope="module")
def drawn():
    planted = SyntheticClickModel(3)
    return planted, planted.draw(np.random.default_rng(5), 40_000)


def test_about_a_quarter_is_clicked(drawn):
    planted, clicks = drawn
    assert abs(planted.probabilities(clicks).mean() - 0.25) < 0.01


def test_some_fields_are_always_there_and_some_mostly_missing(drawn):
    _, clicks = drawn
    for missing in (np.isnan(clicks.integers).mean(axis=0), (clicks.categories < 0).mean(axis=0)):
        assert missing.min() == 0
        assert 0.7 < missing.max() < 0.8
        assert len(set(missing.round(1))) >= 3


def test_a_few_values_of_a_field_are_most_of_it_and_many_are_rare(drawn):
    counts = np.sort(np.unique(drawn[1].categories[:, 20], return_counts=True)[1])[::-1]
    assert len(counts) > 150
    assert counts[:10].sum() > 0.7 * counts.sum()
    assert counts[1] < 0.8 * counts[0]


def test_the_numbers_of_a_fields_values_are_all_different_and_of_32_bits():
    found = identities(7, 100_000)
    assert len(set(found.tolist())) == 100_000
    assert found.min() >= 0 and found.max() < 2**32


def test_integers_categories_and_pairs_all_count(drawn):
    planted, clicks = drawn
    logits = planted.logits(clicks)
    shuffled = np.random.default_rng(1).permutation(len(logits))
    without = {
        "integers": Clicks(clicks.integers[shuffled], clicks.categories),
        "categories": Clicks(clicks.integers, clicks.categories[shuffled]),
    }
    for name, changed in without.items():
        assert np.corrcoef(logits, planted.logits(changed))[0, 1] < 0.9, name


def test_pairs_of_fields_act_together(drawn):
    """Exchanging one field of two examples changes the logit by an amount that depends on another field."""
    planted, clicks = drawn
    corners = []
    for first, second in ((0, 0), (0, 1), (1, 0), (1, 1)):
        changed = clicks.categories[:1000].copy()
        changed[:, 8], changed[:, 16] = identities(8, 3)[first], identities(16, 5)[second]
        corners.append(planted.logits(Clicks(clicks.integers[:1000], changed)))
    together = corners[0] - corners[1] - corners[2] + corners[3]
    assert np.ptp(together) < 1e-9
    assert abs(together[0]) > 0.05


@pytest.mark.long
def test_most_of_the_signal_is_learnable_by_a_model_without_pairs(drawn):
    """Logistic regression, by Newton's method on the frequent categories, on the 40,000 lines; scored on others."""
    planted, clicks = drawn
    fresh = planted.draw(np.random.default_rng(6), 20_000)
    frequent = [_most_frequent(clicks.categories[:, field], 15) for field in range(26)]

    def columns(some):
        logs = np.where(np.isnan(some.integers), 0, np.log1p(np.maximum(np.nan_to_num(some.integers), 0)))
        hot = [some.categories[:, [field]] == values for field, values in enumerate(frequent)]
        return np.column_stack([np.ones(len(logs)), logs, np.isnan(some.integers), *hot]).astype(np.float32)

    random = np.random.default_rng(7)
    x, labels = columns(clicks), random.random(len(clicks.integers)) < planted.probabilities(clicks)
    weights = np.zeros(x.shape[1])
    for _ in range(4):
        p = sigmoid(x @ weights)
        hessian = (x * (p * (1 - p))[:, None].astype(np.float32)).T @ x + 3 * np.eye(x.shape[1])
        weights += np.linalg.solve(hessian, x.T @ (labels - p) - 3 * weights)
    truth = planted.probabilities(fresh)
    clicked = random.random(len(truth)) < truth
    own, learned = auc(clicked, truth), auc(clicked, columns(fresh) @ weights)
    assert own - 0.03 < learned < own - 0.003


def _most_frequent(ids, most):
    values, counts = np.unique(ids, return_counts=True)
    return values[np.argsort(-counts)[:most]]
