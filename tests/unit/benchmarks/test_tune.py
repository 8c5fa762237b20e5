"""The benchmark of studies: a model whose best flags are known, and the report of a record."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import planted, tune


def errors_of(**changes):
    flags = {"learning_rate": 0.5, "a": 0.3, "b": 0.7, "kind": "right", **changes}
    return dict(planted.descend(**flags, seed=1, steps=tune.STEPS, evaluate=tune.EVALUATE))


def test_the_planted_flags_are_the_best():
    best = errors_of()
    assert list(best) == list(range(20, 201, 20)) and best[200] < best[20]
    for change in ({"a": 0.5}, {"b": 0.5}, {"kind": "left"}, {"kind": "middle"}, {"learning_rate": 0.01}):
        assert errors_of(**change)[200] > best[200]


def test_the_numpy_training_descends_the_loss_of_the_model():
    x, y = planted.examples("train")
    order = np.random.default_rng(1).permutation(planted.EXAMPLES)[: planted.BATCH]
    constant, rate, step = planted.added(0.1, 0.2, "left"), 0.1, 1e-4

    def loss(w):
        return np.mean((x[order].astype(float) @ w + constant - y[order]) ** 2)

    gradient = [(loss(row) - loss(-row)) / (2 * step) for row in np.eye(planted.WIDTH) * step]
    test_x, test_y = planted.examples("test")
    expected = np.mean((test_x @ (-rate * np.array(gradient)) + constant - test_y) ** 2)
    ((_, error),) = planted.descend(rate, 0.1, 0.2, "left", seed=1, steps=1, evaluate=1)
    assert error == pytest.approx(expected, rel=1e-4)


def test_a_study_counts_its_steps():
    found = tune.study_of("random", "none", seed=3, below=0.9)
    assert found["found"] and found["steps"] == 600 * found["trials"] and found["best"] < 0.9
    assert found["steps_of_50"] <= 600 * tune.TRIALS
