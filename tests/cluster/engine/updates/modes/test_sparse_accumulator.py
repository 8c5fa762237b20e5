"""Rounds of synchronous updates with tables: which gradients of rows belong to them."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf

from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.long import long
from tests.support.machine.processes import eventually
from tests.support.models.tables import COMBINERS, DIMENSION, ROWS, Bags, NumpyRule, gradients_of_bags

RATE = 0.05


def made(num_ps: int, model: Bags | None = None, **fields) -> tuple[InProcessCluster, dict, dict]:
    """A cluster of three workers, its tables, and what its optimizer does to them."""
    settings = {"update": "sync", "learning_rate": RATE, "batch_size": 4, **fields}
    cluster = InProcessCluster(model or Bags(), num_ps, 3, **settings)
    cluster.start()
    tables = {name: cluster.values()[name].astype(float) for name in COMBINERS}
    return (
        cluster,
        tables,
        {name: NumpyRule(settings["optimizer"], RATE, (ROWS, DIMENSION)).apply for name in COMBINERS},
    )


def step(cluster: InProcessCluster, *workers: int) -> None:
    in_parallel([lambda index=index: cluster.sessions[index].run(cluster.steps[index].ops.train) for index in workers])


def update(tables: dict, rules: dict, number: int, *workers: int) -> None:
    """By hand, with those workers' batches of that number."""
    data = Bags().data("train", "")
    rows = np.concatenate([np.arange(number * 4, number * 4 + 4) * 3 + index for index in workers])
    for name, found in gradients_of_bags(tables, data.features[rows], data.labels[rows]).items():
        rules[name](tables[name], *found)


def assert_tables(cluster: InProcessCluster, tables: dict) -> None:
    found = cluster.values()
    for name in COMBINERS:
        np.testing.assert_allclose(found[name], tables[name], atol=1e-5, rtol=1e-5, err_msg=name)


class HeldBags(Bags):
    """Worker 0 waits in front of its push while `hold` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.builds, self.hold, self.reached = 0, threading.Event(), threading.Event()

    def forward(self, features, training):
        first = self.builds == 1  # the first time is the trace
        self.builds += 1

        def wait(values):
            if first and self.hold.is_set():
                self.reached.set()
                eventually(lambda: not self.hold.is_set(), 20, "the release")
            return values

        outputs = super().forward(features, training)
        return outputs + tf.stop_gradient(tf.numpy_function(wait, [outputs], tf.float32) - outputs)


@pytest.mark.long
@pytest.mark.parametrize("num_ps", [long(1), 2])
def test_gradients_of_rows_that_come_too_late_are_dropped(num_ps: int) -> None:
    model = HeldBags()
    cluster, tables, rules = made(num_ps, model, optimizer="momentum", backup_workers=1)

    def others() -> None:
        assert model.reached.wait(20)
        for number in range(2):
            step(cluster, 1, 2)
            update(tables, rules, number, 1, 2)
        assert_tables(cluster, tables)
        model.hold.clear()

    model.hold.set()
    in_parallel([lambda: step(cluster, 0), others])
    assert_tables(cluster, tables)
    assert (cluster.global_step(), cluster.values()["ps_train/dropped"]) == (2, 1)


@pytest.mark.long
def test_what_a_replica_pushed_before_it_left_counts_in_that_round_alone() -> None:
    cluster, tables, rules = made(2, optimizer="sgd")
    step(cluster, 0, 1, 2)
    cluster.dismiss(0)
    for _ in range(2):
        step(cluster, 1, 2)
    update(tables, rules, 0, 0, 1, 2)
    update(tables, rules, 1, 1, 2)
    update(tables, rules, 2, 1, 2)
    assert_tables(cluster, tables)
