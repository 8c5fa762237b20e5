"""Copies of a step draw random numbers of their own."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models.small import Linear

RUN, STEPS = 8, 40


@tf.function
def of_the_module(x):
    return x * tf.random.uniform([16])


def in_cond(x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: x * tf.random.uniform([16]), lambda: x)


def in_while_loop(x):
    return tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, y * tf.random.uniform([16])), [0, x])[1]


def in_map_fn(x):
    return tf.map_fn(lambda row: row * tf.random.uniform([]), x)


def in_functions_of_functions(x):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: in_while_loop(of_the_module(x)), lambda: x)


class Drawing(Linear):
    """Notes the random numbers that `draw` makes of ones."""

    def __init__(self, draw) -> None:
        super().__init__(count=64, width=16)
        self.draw, self.seen = draw, []

    def forward(self, features, training):
        def note(values):
            self.seen.append(values.copy())
            return values

        drawn = self.draw(tf.ones([16]))
        noted = tf.ensure_shape(tf.numpy_function(note, [drawn], tf.float32), [16])
        return super().forward(features * noted, True)


def cluster_of(model: Linear, **fields) -> InProcessCluster:
    cluster = InProcessCluster(model, 1, 1, **{"batch_size": 4, "steps_per_run": str(RUN), **fields})
    cluster.start()
    return cluster


@pytest.mark.parametrize("draw", [in_cond, of_the_module, in_functions_of_functions, long(in_while_loop), in_map_fn])
@pytest.mark.usual(1)
def test_copies_draw_different_numbers_within_functions(draw) -> None:
    """The variance of sums over the steps tells whether any two steps drew the same."""
    model = Drawing(draw)
    cluster = cluster_of(model)
    model.seen.clear()
    cluster.train(STEPS, run=RUN)
    seen = np.array(model.seen)
    assert len(seen) == STEPS and len({step.tobytes() for step in seen}) == STEPS
    correlations = np.corrcoef(seen)[~np.eye(STEPS, dtype=bool)]
    assert abs(correlations.mean()) < 0.1, "steps that draw the same numbers are correlated"


def twice(x):
    """Two branches that are built alike."""
    first, second = (tf.cond(tf.reduce_sum(x) > 0, lambda: tf.random.uniform([8]), lambda: x[:8]) for _ in range(2))
    return tf.concat([first, second], 0)


def test_functions_that_are_built_alike_draw_different_numbers_in_one_step() -> None:
    model = Drawing(twice)
    cluster = cluster_of(model)
    model.seen.clear()
    cluster.train(RUN, run=RUN)
    assert len({half.tobytes() for step in model.seen for half in np.split(step, 2)}) == 2 * RUN


@pytest.mark.long
def test_they_draw_the_same_numbers_in_every_process_of_the_same_seed() -> None:
    found = []
    for _ in range(2):
        model = Drawing(in_functions_of_functions)
        cluster = cluster_of(model)
        model.seen.clear()
        cluster.train(RUN, run=RUN)
        found.append(np.array(model.seen))
    np.testing.assert_allclose(*found, rtol=1e-6)
