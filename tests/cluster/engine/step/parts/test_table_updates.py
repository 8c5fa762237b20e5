"""Rows of tables that do not wait for the round of the dense values."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from ps_train.base.errors import ConfigError
from ps_train.config.job import Job
from ps_train.engine.updates.gradients.push_guard import NOT_FINITE
from ps_train.engine.updates.modes.quorum import JOINING
from tests.cluster.test_tables import RATE, assert_tables, by_hand, rules_of
from tests.support.clusters.cluster import InProcessCluster, batches_of
from tests.support.long import long
from tests.support.machine.processes import eventually
from tests.support.models.small import Linear
from tests.support.models.tables import COMBINERS, AddedBags, Bags, gradients_of_bags

BATCH, TOLERANCE = 12, 3e-6


class StillRows(Bags):
    """Rows that never move, under a bias that does."""

    def __init__(self) -> None:
        super().__init__(dense=True)

    def optimizer(self, name: str, learning_rate: Any) -> Any:
        return {
            "": v1.train.GradientDescentOptimizer(0.0),
            "bias": v1.train.MomentumOptimizer(learning_rate, 0.9),
        }


def cluster_of(num_ps: int, workers: int, model: Bags | None = None, **fields: Any) -> InProcessCluster:
    settings = {"learning_rate": RATE, "batch_size": BATCH // workers, "update": "sync", "optimizer": "sgd", **fields}
    cluster = InProcessCluster(model or Bags(), num_ps, workers, **settings)
    cluster.start()
    return cluster


@pytest.mark.parametrize("optimizer", ["momentum", long("adagrad"), long("lazy_adam")])
@pytest.mark.parametrize("fields", [{}, {"local_steps": 4, "local_tables": False}], ids=["steps", "local"])
def test_rows_of_one_worker_are_those_of_plain_updates(optimizer: str, fields: dict[str, Any]) -> None:
    cluster = cluster_of(2, 1, optimizer=optimizer, table_update="async", **fields)
    initial = cluster.values()
    if fields:
        cluster.rounds([4, 3, 1])
    else:
        cluster.train(4)
        cluster.train(4, run=4)
    assert_tables(cluster.values(), by_hand(initial, 8, rules_of(optimizer)), TOLERANCE)
    assert cluster.global_step() == 8


@pytest.mark.parametrize("codec", ["bfloat16", long("int8"), long("top_k:0.5")])
def test_rows_of_pushes_that_are_encoded_move(codec: str) -> None:
    cluster = cluster_of(2, 1, optimizer="sgd", table_update="async", push_codec=codec)
    initial = cluster.values()
    cluster.train(8)
    found, wanted = cluster.values(), by_hand(initial, 8, rules_of("sgd"))
    for name in COMBINERS:
        moved = np.abs(wanted[name] - initial[name]).max()
        np.testing.assert_allclose(found[name], wanted[name], atol=0.1 * moved, err_msg=name)


class BadBags(Bags):
    """One example of the second batch has a finite loss, of which the gradient is not a number."""

    def data(self, split: str, data_dir: str) -> Arrays:
        data = super().data(split, data_dir)
        labels = data.labels.copy()
        labels[BATCH + 1] = np.nan
        return Arrays(data.features, labels)

    def loss(self, outputs: Any, labels: Any) -> Any:
        is_bad = tf.math.is_nan(labels)
        zero = tf.where(is_bad, 0.0, 1.0)  # TensorFlow 2.16 takes the gradient of a product with a constant 0 for 0
        rooted = tf.sqrt(tf.where(is_bad, outputs * zero, tf.ones_like(outputs)))
        return tf.reduce_mean(tf.square(outputs - tf.where(is_bad, 0.0, labels)) + rooted)


@pytest.mark.parametrize("on_nan", ["stop", "skip"])
def test_rows_that_travel_in_local_steps_get_no_gradient_that_is_not_finite(on_nan: str) -> None:
    fields = {"update": "async", "local_steps": 4, "local_tables": False, "optimizer": "adagrad", "on_nan": on_nan}
    cluster = cluster_of(2, 1, BadBags(), **fields)
    initial = cluster.values()
    if on_nan == "stop":
        with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
            cluster.rounds([4])
    else:
        cluster.rounds([4])
        assert cluster.global_step() == 3
    found = cluster.values()
    assert all(np.isfinite(found[name]).all() and np.any(found[name] != initial[name]) for name in COMBINERS)


def test_rows_move_while_the_round_waits_for_another_worker() -> None:
    cluster = cluster_of(2, 2, table_update="async", optimizer="adagrad")
    before = cluster.values()
    step = threading.Thread(target=cluster.train_of, args=([0], 1), daemon=True)
    step.start()
    eventually(lambda: np.any(cluster.values()["mean"] != before["mean"]), 20, "rows of worker 0")
    assert cluster.global_step() == 0 and step.is_alive()
    cluster.train_of([1], 1)
    step.join(20)
    assert cluster.global_step() == 1 and not step.is_alive()


@pytest.mark.parametrize("num_ps", [2, long(1)])
def test_the_push_with_which_a_worker_announces_itself_moves_no_row(num_ps: int) -> None:
    """Nothing of it is used, and the worker reads its batch again where shards say which examples are used."""
    cluster = cluster_of(num_ps, 2, AddedBags(), table_update="async")
    before = cluster.values()
    cluster.dismiss(1)
    announced = threading.Thread(target=cluster.train_of, args=([1], 1), daemon=True)
    announced.start()
    eventually(lambda: cluster.read("ps_train/round_state_0")[0][1] == JOINING, 20, "the announcement")
    cluster.train_of([0], 1)
    announced.join(20)
    assert not announced.is_alive() and cluster.global_step() == 1
    (ids, labels), *_ = batches_of(Bags(), BATCH, 1)
    tables = {name: before[name].astype(np.float64) for name in COMBINERS}
    for name, (rows, gradient) in gradients_of_bags(before, ids[::2], labels[::2], added=True).items():
        tables[name][rows] -= RATE * gradient
    assert_tables(cluster.values(), tables, TOLERANCE)
    cluster.train(1)
    assert any(np.abs(cluster.values()[name] - tables[name]).max() > 1e-3 for name in COMBINERS)


def test_each_workers_rows_are_updates_of_their_own() -> None:
    """With gradient descent two updates of half a batch move a row by the sum of both means."""
    cluster = cluster_of(2, 2, AddedBags(), table_update="async")
    initial = cluster.values()
    cluster.train(1)
    tables = {name: initial[name].astype(np.float64) for name in COMBINERS}
    (ids, labels), *_ = batches_of(Bags(), BATCH, 1)
    for half in (slice(0, None, 2), slice(1, None, 2)):
        for name, (rows, gradient) in gradients_of_bags(initial, ids[half], labels[half], added=True).items():
            tables[name][rows] -= RATE * gradient
    assert_tables(cluster.values(), tables, TOLERANCE)


@pytest.mark.parametrize("workers", [2, long(1)])
@pytest.mark.parametrize("run", [long(4), 1])
def test_dense_values_are_those_of_synchronous_updates(workers: int, run: int) -> None:
    found = []
    for fields in ({}, {"table_update": "async"}):
        cluster = cluster_of(2, workers, StillRows(), **fields)
        cluster.train(8, run)
        found.append(cluster.values())
    plain, alone = found
    assert plain.keys() == alone.keys()
    assert {int(one["global_step"]) for one in found} == {8}
    for key in ("bias", *COMBINERS):
        np.testing.assert_allclose(alone[key], plain[key], rtol=1e-6, atol=1e-6, err_msg=key)
    assert plain["ps_train/examples"] == alone["ps_train/examples"] == 8 * BATCH


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"table_update": "async"}, "table_update=async"), ({"local_steps": 4, "local_tables": False}, "local_tables=")],
)
def test_flags_of_rows_are_refused_for_a_model_without_tables(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{named}.* is for models with tables, and this one has none"):
        InProcessCluster(Linear(), 1, 1, update="sync", **fields)


def test_updates_of_rows_are_for_synchronous_jobs() -> None:
    with pytest.raises(ConfigError, match=r"^table_update=async is for update=sync"):
        Job(update="async", table_update="async")
