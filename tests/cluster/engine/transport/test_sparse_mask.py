"""A gradient of some rows only stays one: rows that no example touches are treated as in a plain session."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from ps_train.modeling.model import make_optimizer
from tests.support.clusters.cluster import InProcessCluster, batches_of, train_plainly
from tests.support.long import long
from tests.support.models.small import Linear

ROWS, RATE = 30, 0.1


class Lookup(Linear):
    """The mean of a few rows of a table, times a dense vector.  Ids repeat, and most rows are seldom touched."""

    def data(self, split, data_dir):
        random = np.random.default_rng(5)
        ids = np.minimum(random.geometric(0.15, size=(240, 3)) - 1, ROWS - 1)
        return Arrays(ids, random.normal(size=240).astype(np.float32))

    def forward(self, features, training):
        table = v1.get_variable("table", [ROWS, 4], initializer=v1.ones_initializer())
        w = v1.get_variable("w", [4, 1])
        return tf.squeeze(tf.reduce_mean(tf.gather(table, features), axis=1) @ w, 1)


def trained(num_ps: int, workers: int, batch: int, steps: int, **fields) -> tuple[InProcessCluster, dict]:
    cluster = InProcessCluster(
        Lookup(), num_ps, workers, learning_rate=RATE, batch_size=batch, partition_bytes=64, **fields
    )
    cluster.start()
    initial = cluster.values()
    cluster.train(steps)
    return cluster, initial


@pytest.mark.parametrize(("update", "num_ps", "workers"), [("sync", 1, 2), long("sync", 3, 3), long("async", 2, 1)])
@pytest.mark.parametrize("optimizer", [long("sgd"), long("momentum"), "adam", long("adagrad")])
def test_it_equals_one_process_with_sparse_gradients(optimizer: str, update: str, num_ps: int, workers: int) -> None:
    cluster, initial = trained(num_ps, workers, 12 // workers, 50, update=update, optimizer=optimizer)
    plain = train_plainly(Lookup(), lambda: make_optimizer(optimizer, RATE), initial, batches_of(Lookup(), 12, 50))
    found = cluster.values()
    for name, value in plain.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5, rtol=1e-5, err_msg=name)
    assert num_ps == 1 or any(piece.count > 1 for piece in cluster.plan.slices), "the table must be in slices"


def gradient_of(ids: np.ndarray, y: np.ndarray, table: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = table[ids].mean(axis=1)
    error = 2 * (mean @ w[:, 0] - y) / len(y)
    of_table = np.zeros_like(table)
    np.add.at(of_table, ids, np.broadcast_to((error[:, None] * w[:, 0])[:, None] / 3, (*ids.shape, 4)))
    return of_table, (mean.T @ error)[:, None]


@pytest.mark.long
@pytest.mark.parametrize("num_ps", [long(1), 2])
def test_an_l2_term_leaves_the_rows_alone_that_the_batch_does_not_touch(num_ps: int) -> None:
    cluster, initial = trained(num_ps, 1, 4, 5, optimizer="sgd", l2=0.5)
    table, w = initial["table"].astype(np.float64), initial["w"].astype(np.float64)
    for ids, y in batches_of(Lookup(), 4, 5):
        of_table, of_w = gradient_of(ids, y, table, w)
        seen = np.isin(np.arange(ROWS), ids)[:, None]
        table, w = table - RATE * (of_table + 0.5 * table * seen), w - RATE * (of_w + 0.5 * w)
    np.testing.assert_allclose(cluster.values()["table"], table, atol=1e-6)
    assert np.array_equal(cluster.values()["table"][-1], initial["table"][-1]), "a row that was never touched"


@pytest.mark.long
def test_accumulated_batches_touch_the_rows_of_all_of_them() -> None:
    small, initial = trained(1, 1, 4, 10, optimizer="momentum", accumulate=3, l2=0.1)
    large, _ = trained(1, 1, 12, 10, optimizer="momentum", l2=0.1)
    for name in ("table", "w", "table/Momentum"):
        np.testing.assert_allclose(small.values()[name], large.values()[name], atol=1e-6)
    assert not np.array_equal(small.values()["table"], initial["table"])
