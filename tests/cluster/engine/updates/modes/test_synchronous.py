"""Synchronous workers compute what one process computes on their joined batches."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train import Arrays
from ps_train.engine.updates.gradients.push_guard import NOT_FINITE
from ps_train.modeling.model import make_optimizer
from tests.support.clusters.cluster import InProcessCluster, batches_of, train_plainly
from tests.support.long import long
from tests.support.models.small import Heavy, Linear

OPTIMIZERS = ["sgd", "momentum", "adam", "adagrad"]


RATE = 0.05


def differences(distributed: dict[str, np.ndarray], plain: dict[str, np.ndarray]) -> dict[str, float]:
    """Largest difference of each variable, relative where its values are above 1 (Adagrad's accumulators are)."""
    scale = {name: max(1.0, float(np.abs(value).max())) for name, value in plain.items()}
    return {name: float(np.abs(distributed[name] - value).max()) / scale[name] for name, value in plain.items()}


@pytest.mark.parametrize(("num_workers", "num_ps"), [(2, 2), long(2, 1), long(3, 3), long(5, 1)])
@pytest.mark.parametrize("optimizer", [one if one == "adam" else long(one) for one in OPTIMIZERS])
def test_synchronous_workers_equal_one_process_on_the_joined_batches(
    optimizer: str, num_workers: int, num_ps: int
) -> None:
    model = Linear(count=120, width=5)
    each = 4
    cluster = InProcessCluster(
        model,
        num_ps,
        num_workers,
        update="sync",
        optimizer=optimizer,
        learning_rate=RATE,
        batch_size=each,
        partition_bytes=8,
    )
    cluster.start()
    initial = cluster.values()
    cluster.train(20)
    joined = batches_of(model, each * num_workers, 20)
    plain = train_plainly(model, lambda: make_optimizer(optimizer, RATE), initial, joined)
    found = differences(cluster.values(), plain)
    assert max(found.values()) < 1e-5, found
    assert cluster.global_step() == 20
    assert cluster.values()["ps_train/examples"] == 20 * each * num_workers


def test_in_synchronous_updates_every_example_counts_the_same_when_batches_differ_in_size() -> None:
    model = Linear(count=10)  # worker 0 and 1 have 5 examples each: batches of 4 and 1
    cluster = InProcessCluster(model, 1, 2, update="sync", optimizer="sgd", learning_rate=RATE, batch_size=4, epochs=1)
    cluster.start()
    initial = cluster.values()
    cluster.sessions[1].run(cluster.steps[1].worker.batches.labels)  # worker 1 is at its short batch already
    cluster.train(1)
    data = model.data("train", "")
    rows = np.array([0, 2, 4, 6, 9])  # worker 0's first four, worker 1's last one
    plain = train_plainly(
        model, lambda: make_optimizer("sgd", RATE), initial, [(data.features[rows], data.labels[rows])]
    )
    assert max(differences(cluster.values(), plain).values()) < 1e-6


class PartlyNan(Heavy):
    """The second of worker 1's batches of one example is not finite."""

    def data(self, split: str, data_dir: str) -> Arrays:
        arrays = super().data(split, data_dir)
        arrays.features[3] = np.nan
        return arrays


@pytest.mark.parametrize("optimizer", ["sgd", long("momentum")])
def test_large_gradients_that_are_sent_before_they_are_found_to_be_no_numbers_count_for_nothing(optimizer: str) -> None:
    model = PartlyNan()
    cluster = InProcessCluster(
        model, 2, 2, update="sync", optimizer=optimizer, learning_rate=RATE, batch_size=1, on_nan="skip"
    )
    cluster.start()
    initial = cluster.values()
    cluster.train(3)
    data = Heavy().data("train", "")
    batches = [[0, 1], [2], [4, 5]]
    plain = train_plainly(
        model,
        lambda: make_optimizer(optimizer, RATE),
        initial,
        [(data.features[rows], data.labels[rows]) for rows in batches],
    )
    assert max(differences(cluster.values(), plain).values()) < 1e-6
    assert cluster.values()["ps_train/skipped"] == 1 and cluster.values()["ps_train/examples"] == 5


def test_a_large_gradient_that_is_no_number_stops_the_job_and_changes_nothing() -> None:
    cluster = InProcessCluster(PartlyNan(), 1, 2, update="sync", learning_rate=RATE, batch_size=1, on_nan="stop")
    cluster.start()
    cluster.train(1)
    before = cluster.values()
    with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
        cluster.sessions[1].run(cluster.steps[1].ops.train)
    after = cluster.values()
    assert all(np.array_equal(value, after[name]) for name, value in before.items())


def test_a_replica_whose_input_has_ended_weighs_nothing_and_when_all_have_there_is_no_step() -> None:
    model = Linear(count=16)
    cluster = InProcessCluster(model, 2, 2, update="sync", optimizer="sgd", learning_rate=RATE, batch_size=8, epochs=1)
    cluster.start()
    initial = cluster.values()
    assert cluster.sessions[1].run(cluster.steps[1].worker.batches.examples) == 8  # worker 1's only batch is gone
    cluster.train(1)
    data = model.data("train", "")
    plain = train_plainly(
        model, lambda: make_optimizer("sgd", RATE), initial, [(data.features[0::2], data.labels[0::2])]
    )
    assert max(differences(cluster.values(), plain).values()) < 1e-6
    assert cluster.values()["ps_train/examples"] == 8
    cluster.train(1)  # a round of nothing ends too, and is no step
    assert cluster.global_step() == 1
    assert max(differences(cluster.values(), plain).values()) < 1e-6
