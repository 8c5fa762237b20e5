"""The conditional random field, against all sequences of tags one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1 import contrib_crf as crf

CHANCE = np.random.default_rng(3)
SCORES = CHANCE.normal(size=[4, 4, 3]).astype(np.float32)  # [batch, positions, tags]
PAIRS = CHANCE.normal(size=[3, 3]).astype(np.float32)
LENGTHS = [4, 2, 1, 0]
TAGS = CHANCE.integers(0, 3, size=[4, 4])


def score_of(example: int, tags) -> float:
    own = sum(SCORES[example, place, tag] for place, tag in enumerate(tags))
    return own + sum(PAIRS[one, two] for one, two in itertools.pairwise(tags))


def every(length: int):
    return list(itertools.product(range(3), repeat=length))


def test_the_likelihood_is_that_among_all_sequences(run) -> None:
    likelihood, pairs = crf.crf_log_likelihood(SCORES, TAGS, LENGTHS, PAIRS)
    right = []
    for example, length in enumerate(LENGTHS):
        all_scores = [score_of(example, tags) for tags in every(length)]
        right.append(score_of(example, TAGS[example, :length]) - np.log(np.sum(np.exp(all_scores))))
    np.testing.assert_allclose(run(likelihood), right, atol=1e-5)
    assert pairs is PAIRS


def test_without_scores_of_pairs_a_variable_has_them(run) -> None:
    _, pairs = crf.crf_log_likelihood(SCORES, TAGS, LENGTHS)
    assert run.values().keys() == {"transitions"} and pairs.shape == [3, 3]


def test_the_best_tags_are_those_of_all_sequences(run) -> None:
    tags, scores = run(crf.crf_decode(SCORES, PAIRS, LENGTHS[:3] + [1]))
    for example, length in enumerate(LENGTHS[:3] + [1]):
        best = max(every(length), key=lambda one: score_of(example, one))
        assert tags[example].tolist() == [*best] + [0] * (4 - length)
        assert scores[example] == pytest.approx(score_of(example, best), abs=1e-5)
        found, score = crf.viterbi_decode(SCORES[example, :length], PAIRS)
        assert found == [*best] and score == pytest.approx(scores[example], abs=1e-5)


def test_a_gradient_step_makes_the_tags_likelier(run) -> None:
    with v1.variable_scope("crf"):
        likelihood, _ = crf.crf_log_likelihood(SCORES, TAGS, LENGTHS)
    loss = -tf.reduce_mean(likelihood)
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    before = run(loss)
    for _ in range(5):
        run(step)
    assert run(loss) < before
