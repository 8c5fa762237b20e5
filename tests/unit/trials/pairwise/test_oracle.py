"""The oracle is compared with TensorFlow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.optimizers import LazyAdam, RowWiseAdagrad
from tests.support.clusters.cluster import train_plainly
from tests.trials.pairwise.factors import (
    BATCH,
    RATE,
    STEPS,
    Row,
)
from tests.trials.pairwise.model import IDS, Net, make_examples
from tests.trials.pairwise.oracle import Optimizer, Oracle


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("sgd", v1.train.GradientDescentOptimizer),
        ("momentum", lambda rate: v1.train.MomentumOptimizer(rate, 0.9)),
        ("adam", v1.train.AdamOptimizer),
        ("adagrad", v1.train.AdagradOptimizer),
        ("ftrl", v1.train.FtrlOptimizer),
        ("rmsprop", v1.train.RMSPropOptimizer),
        ("lazy_adam", LazyAdam),
        ("rowwise_adagrad", RowWiseAdagrad),
    ],
)
def test_the_oracles_optimizers_are_those_of_tensorflow(name: str, make: Callable[[float], v1.train.Optimizer]) -> None:
    chance = np.random.default_rng(1)
    begin = chance.normal(size=(5, 3))
    steps = [(sorted(chance.choice(5, 2, replace=False).tolist()), chance.normal(size=(2, 3))) for _ in range(6)]
    steps = [(list(range(5)), chance.normal(size=(5, 3))) for _ in steps] if name == "adam" else steps
    got, optimizer = begin.copy(), Optimizer(name)
    slots = optimizer.make_slots(got)
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("v", initializer=begin.astype(np.float32), use_resource=True)
        rows, values = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [None, 3])
        gradient = values if name == "adam" else tf.IndexedSlices(values, rows, tf.constant([5, 3], tf.int64))
        if name == "adam":
            gradient = tf.ensure_shape(values, [5, 3])
        update = make(RATE).apply_gradients([(gradient, variable)])
        session.run(v1.global_variables_initializer())
        for number, part in steps:
            session.run(update, {rows: number, values: part})
            optimizer.begin()
            optimizer.apply(got, slots, number, part)
        np.testing.assert_allclose(got, session.run(variable), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("table", ["none", "rows"])
@pytest.mark.parametrize("is_linear", [False, True])
def test_the_oracles_gradients_are_those_of_the_model(table: str, is_linear: bool) -> None:
    row = Row(table=table, optimizer="momentum", prefetch_pulls=int(is_linear), steps_per_run="3")
    oracle = Oracle(row)
    assert oracle.run(STEPS) == STEPS
    x, ids, labels = make_examples(row.examples, equal=row.has_equal_examples)
    parts = [slice(step % 4 * BATCH, (step % 4 + 1) * BATCH) for step in range(STEPS)]
    plain = train_plainly(
        Net(row.examples, row.has_equal_examples, table, is_linear),
        lambda: v1.train.MomentumOptimizer(RATE, 0.9),
        {},
        [({"x": x[part], "id": ids[part]}, labels[part]) for part in parts],
    )
    for name, value in oracle.values.items():
        if name != "emb/default":
            got = plain[name][plain_places()] if name == "emb" else plain[name]
            np.testing.assert_allclose(got, value, rtol=1e-4, atol=1e-5, err_msg=name)


def plain_places() -> np.ndarray:
    from ps_train.embeddings import positions_of

    return positions_of(np.arange(IDS), IDS)
