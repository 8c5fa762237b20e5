"""Training with sparse tables computes what dense mathematics computes."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.pipeline import DataSource
from ps_train.engine.variables import initialization
from ps_train.modeling.model import make_optimizer
from ps_train.training.tasks.evaluator import score
from tests.support.clusters.cluster import InProcessCluster, batches_of, train_plainly
from tests.support.long import long
from tests.support.models.tables import (
    COMBINERS,
    DIMENSION,
    MISSING,
    ROWS,
    AddedBags,
    Bags,
    NumpyRule,
    PlainBags,
    gradients_of_bags,
)

QUICK = ("adagrad", "lazy_adam")
"""Of the optimizers, those that are not among the long cases."""
OPTIMIZERS = ["sgd", "momentum", "adagrad", "ftrl", "lazy_adam", "rowwise_adagrad"]
TENSORFLOWS = ["sgd", "momentum", "adagrad", "ftrl"]
RATE = 0.05


@pytest.fixture
def cluster_of():
    """Starts a cluster of bags; gives it and its initial values."""

    def make(num_ps: int, workers: int, model: Bags | None = None, **fields):
        settings = {"learning_rate": RATE, "batch_size": 12 // workers, **fields}
        cluster = InProcessCluster(model or Bags(), num_ps, workers, **settings)
        cluster.start()
        return cluster, cluster.values()

    return make


def by_hand(initial: dict, steps: int, rules: dict, change=lambda gradients, tables: gradients) -> dict:
    tables = {name: initial[name].astype(np.float64) for name in COMBINERS}
    for ids, labels in batches_of(Bags(), 12, steps):
        for name, (rows, gradient) in change(gradients_of_bags(tables, ids, labels), tables).items():
            rules[name](tables[name], rows, gradient)
    return tables


def rules_of(optimizer: str) -> dict:
    return {name: NumpyRule(optimizer, RATE, (ROWS, DIMENSION)).apply for name in COMBINERS}


def assert_tables(found: dict, expected: dict, tolerance: float) -> None:
    for name in COMBINERS:
        np.testing.assert_allclose(found[name], expected[name], atol=tolerance, rtol=tolerance, err_msg=name)


@pytest.mark.usual(1)
@pytest.mark.parametrize("optimizer", [one if one in QUICK else long(one) for one in OPTIMIZERS])
def test_every_optimizer_and_combiner_equal_numpy(cluster_of, optimizer: str) -> None:
    cluster, initial = cluster_of(2, 1, optimizer=optimizer)
    cluster.train(8)
    assert_tables(cluster.values(), by_hand(initial, 8, rules_of(optimizer)), 1e-6)
    ids = batches_of(Bags(), 12, 8)
    assert any((some == MISSING).all(axis=1).any() for some, _ in ids), "a bag must be empty"
    assert all({0, ROWS - 1} <= set(some.ravel()) for some, _ in ids), "ids must be at the edges"


@pytest.mark.long
def test_ftrl_with_both_penalties_equals_numpy(cluster_of) -> None:
    class Penalised(Bags):
        def optimizer(self, name, learning_rate):
            return v1.train.FtrlOptimizer(
                learning_rate, l1_regularization_strength=0.01, l2_regularization_strength=0.02
            )

    cluster, initial = cluster_of(2, 1, Penalised())
    cluster.train(8)
    rules = {
        name: functools.partial(NumpyRule("ftrl", RATE, (ROWS, DIMENSION)).ftrl, l1=0.01, l2=0.02) for name in COMBINERS
    }
    expected = by_hand(initial, 8, rules)
    assert_tables(cluster.values(), expected, 1e-6)
    assert any((table == 0).any() for table in expected.values()), "the first penalty must show"


@pytest.mark.long
@pytest.mark.parametrize("num_ps", [long(1), 3])
@pytest.mark.parametrize("optimizer", [one if one in QUICK else long(one) for one in TENSORFLOWS])
def test_one_asynchronous_worker_equals_a_plain_session_with_tensorflows_own_lookup(
    cluster_of, optimizer: str, num_ps: int
) -> None:
    cluster, initial = cluster_of(num_ps, 1, Bags(dense=True), optimizer=optimizer)
    cluster.train(20)
    plain = train_plainly(
        PlainBags(dense=True), lambda: make_optimizer(optimizer, RATE), initial, batches_of(Bags(), 12, 20)
    )
    found = cluster.values()
    assert len(plain) == 4 + {"sgd": 0, "ftrl": 8}.get(optimizer, 4)
    for name, value in plain.items():
        np.testing.assert_allclose(found[name], value, atol=2e-6, rtol=2e-6, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("optimizer", "num_ps"),
    [(one, 3) if one == "adagrad" else long(one, 3) for one in OPTIMIZERS]
    + [long("momentum", 1), long("lazy_adam", 1)],
)
def test_two_synchronous_workers_equal_one_on_the_joined_batches(cluster_of, optimizer: str, num_ps: int) -> None:
    cluster, initial = cluster_of(num_ps, 2, optimizer=optimizer, update="sync")
    cluster.train(20)
    assert_tables(cluster.values(), by_hand(initial, 20, rules_of(optimizer)), 1e-5)
    assert cluster.values()["ps_train/examples"] == 240


@pytest.mark.long
def test_three_replicas_that_arrive_in_any_order_are_all_counted(cluster_of) -> None:
    cluster, initial = cluster_of(2, 3, update="sync", optimizer="momentum")
    cluster.train(30)
    assert_tables(cluster.values(), by_hand(initial, 30, rules_of("momentum")), 1e-5)


@pytest.mark.long
@pytest.mark.parametrize("update", [long("async"), "bounded"])
def test_concurrent_workers_lose_no_update(cluster_of, update: str) -> None:
    cluster, initial = cluster_of(2, 3, AddedBags(), update=update, optimizer="sgd")
    cluster.train(30)
    assert cluster.global_step() == 90
    expected = {name: initial[name].astype(np.float64) for name in COMBINERS}
    for ids, labels in batches_of(Bags(), 12, 30):  # three updates, each the mean of 4 examples
        for name, (rows, gradient) in gradients_of_bags(expected, ids, labels, added=True).items():
            expected[name][rows] -= 3 * RATE * gradient
    assert_tables(cluster.values(), expected, 1e-5)


@pytest.mark.long
def test_an_l2_term_leaves_the_rows_alone_that_no_example_touches(cluster_of) -> None:
    cluster, initial = cluster_of(2, 1, optimizer="sgd", l2=0.5)
    cluster.train(3)

    def with_l2(gradients, tables):
        return {name: (rows, g + 0.5 * tables[name][rows]) for name, (rows, g) in gradients.items()}

    assert_tables(cluster.values(), by_hand(initial, 3, rules_of("sgd"), with_l2), 1e-6)
    assert any(np.array_equal(cluster.values()["sum"][row], initial["sum"][row]) for row in range(ROWS))


def test_the_global_norm_is_that_of_the_rows_of_all_tables(cluster_of) -> None:
    limit = 0.3
    cluster, initial = cluster_of(3, 1, optimizer="sgd", clip_global_norm=limit)
    cluster.train(5)
    norms = []

    def clipped(gradients, tables):
        norms.append(np.sqrt(sum((g**2).sum() for _, g in gradients.values())))
        return {name: (rows, g * min(1, limit / norms[-1])) for name, (rows, g) in gradients.items()}

    assert_tables(cluster.values(), by_hand(initial, 5, rules_of("sgd"), clipped), 1e-6)
    assert max(norms) > limit, "something must have been clipped"


class Bad(Bags):
    """The label of example 13 is no number: the second batch of 12 is bad."""

    def data(self, split, data_dir):
        arrays = super().data(split, data_dir)
        arrays.labels[13] = np.nan
        return arrays


@pytest.mark.long
@pytest.mark.parametrize("update", ["async", "sync"])
def test_a_gradient_of_rows_that_is_no_number_touches_no_row(cluster_of, update: str) -> None:
    cluster, initial = cluster_of(2, 1, Bad(), update=update, optimizer="momentum", on_nan="skip")
    cluster.train(5)
    rules, seen = rules_of("momentum"), []

    def without_the_second(gradients, tables):
        seen.append(gradients)
        return {} if len(seen) == 2 else gradients

    assert_tables(cluster.values(), by_hand(initial, 5, rules, without_the_second), 1e-6)
    assert cluster.values()["ps_train/skipped"] == 1


@pytest.mark.long
def test_a_replica_whose_input_has_ended_touches_no_row(cluster_of) -> None:
    cluster, initial = cluster_of(2, 2, Bags(count=24), update="sync", optimizer="momentum", epochs=1)
    cluster.sessions[1].run(cluster.steps[1].worker.batches.labels)
    cluster.sessions[1].run(
        cluster.steps[1].worker.batches.labels
    )  # worker 1 has no more input, worker 0 has two batches
    cluster.train(2)
    tables = {name: initial[name].astype(np.float64) for name in COMBINERS}
    rules, data = rules_of("momentum"), Bags(count=24).data("train", "")
    for rows in (np.arange(0, 12, 2), np.arange(12, 24, 2)):
        for name, found in gradients_of_bags(tables, data.features[rows], data.labels[rows]).items():
            rules[name](tables[name], *found)
    assert_tables(cluster.values(), tables, 1e-6)


@pytest.mark.long
def test_initial_values_do_not_depend_on_the_number_of_ps_but_on_the_seed(cluster_of) -> None:
    one, two, other = (cluster_of(num_ps, 1, seed=seed)[1] for num_ps, seed in ((1, 5), (3, 5), (1, 6)))
    for name in COMBINERS:
        assert np.array_equal(one[name], two[name]), name
        assert not np.array_equal(one[name], other[name]), name
    assert not np.array_equal(one["sum"], one["mean"])


@pytest.mark.long
@pytest.mark.parametrize("optimizer", ["adagrad", long("rowwise_adagrad"), long("momentum")])
def test_what_is_filled_in_parts_begins_with_the_same_values(
    cluster_of, optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cluster_of(2, 1, optimizer=optimizer)[1]
    monkeypatch.setattr(initialization, "CHUNK_BYTES", 7 * 4 * DIMENSION)
    cluster, parts = cluster_of(2, 1, optimizer=optimizer)
    assert any(op.type == "Empty" for op in cluster.steps[0].graph.get_operations())
    assert whole.keys() == parts.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(parts[name], value, err_msg=name)


@pytest.mark.long
@pytest.mark.parametrize("num_ps", [long(1), 3])
def test_a_checkpoint_of_two_ps_restores_into_another_number_and_training_goes_on(tmp_path, num_ps: int) -> None:
    settings = {"optimizer": "rowwise_adagrad", "batch_size": 12}
    first = InProcessCluster(Bags(), 2, 1, tmp_path, **settings)
    first.start()
    first.train(7)
    assert first.checkpoints is not None and first.checkpoints.save(first.sessions[0]) == 7
    second = InProcessCluster(Bags(), num_ps, 1, tmp_path, **settings)
    assert second.start(restore=True) == 7
    before, after = first.values(), second.values()
    assert {"sum", "sum/RowWiseAdagrad"} <= before.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)
    first.start(restore=True)
    for cluster in (first, second):
        cluster.train(5)
    assert_tables(second.values(), first.values(), 1e-6)


@pytest.mark.long
def test_the_values_on_the_ps_and_those_of_a_checkpoint_have_the_same_score(tmp_path) -> None:
    class Scored(Bags):
        def metrics(self, outputs, labels):
            return {"mean": v1.metrics.mean(outputs)}

    cluster = InProcessCluster(Scored(dense=True), 2, 1, tmp_path, optimizer="sgd", batch_size=12)
    cluster.start()
    cluster.train(3)
    assert cluster.checkpoints is not None
    path = cluster.checkpoints.path(cluster.checkpoints.save(cluster.sessions[0]))
    found = cluster.values()
    data = Bags().data("train", "")
    with tf.Graph().as_default(), v1.Session() as session:
        outputs = PlainBags(dense=True).forward(tf.constant(data.features), training=False)
        session.run([variable.assign(found[variable.op.name]) for variable in v1.global_variables()])
        expected = session.run(outputs).mean()
    assert score(Scored(dense=True), DataSource(lambda: Scored().data("test", "")), path)["mean"] == pytest.approx(
        expected, abs=1e-6
    )
    assert cluster.score()["mean"] == pytest.approx(expected, abs=1e-6)
