"""Distributed training computes what one process computes."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.model import make_optimizer
from ps_train.models.digits import Digits
from tests.support.cluster import InProcessCluster, batches_of, in_parallel, train_plainly
from tests.support.long import long
from tests.support.models import Linear
from tests.support.recording import Recording, used

OPTIMIZERS = ["sgd", "momentum", "adam", "adagrad"]
RATE = 0.05


def differences(distributed: dict[str, np.ndarray], plain: dict[str, np.ndarray]) -> dict[str, float]:
    """Largest difference of each variable, relative where its values are above 1 (Adagrad's accumulators are)."""
    scale = {name: max(1.0, float(np.abs(value).max())) for name, value in plain.items()}
    return {name: float(np.abs(distributed[name] - value).max()) / scale[name] for name, value in plain.items()}


@pytest.mark.parametrize("num_ps", [long(1), 3])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_one_asynchronous_worker_equals_a_plain_session(optimizer: str, num_ps: int) -> None:
    model = Digits(hidden=16)
    cluster = InProcessCluster(model, num_ps, 1, optimizer=optimizer, learning_rate=RATE, batch_size=16)
    cluster.start()
    initial = cluster.values()
    cluster.train(30)
    plain = train_plainly(model, lambda: make_optimizer(optimizer, RATE), initial, batches_of(model, 16, 30))
    found = differences(cluster.values(), plain)
    assert "hidden1/weights" in found and max(found.values()) < 1e-6, found
    assert cluster.global_step() == 30
    assert num_ps == 1 or any(piece.count > 1 for piece in cluster.plan.slices), "a variable must be in slices"


@pytest.mark.parametrize(("num_workers", "num_ps"), [long(2, 1), (3, 3), long(5, 1)])
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
    cluster.train(50)
    joined = batches_of(model, each * num_workers, 50)
    plain = train_plainly(model, lambda: make_optimizer(optimizer, RATE), initial, joined)
    found = differences(cluster.values(), plain)
    assert max(found.values()) < 1e-5, found
    assert cluster.global_step() == 50
    assert cluster.values()["ps_train/examples"] == 50 * each * num_workers


def test_in_synchronous_updates_every_example_counts_the_same_when_batches_differ_in_size() -> None:
    model = Linear(count=10)  # worker 0 and 1 have 5 examples each: batches of 4 and 1
    cluster = InProcessCluster(model, 1, 2, update="sync", optimizer="sgd", learning_rate=RATE, batch_size=4, epochs=1)
    cluster.start()
    initial = cluster.values()
    cluster.sessions[1].run(cluster.steps[1].batches.labels)  # worker 1 is at its short batch already
    cluster.train(1)
    data = model.data("train", "")
    rows = np.array([0, 2, 4, 6, 9])  # worker 0's first four, worker 1's last one
    plain = train_plainly(
        model, lambda: make_optimizer("sgd", RATE), initial, [(data.features[rows], data.labels[rows])]
    )
    assert max(differences(cluster.values(), plain).values()) < 1e-6


def test_a_replica_whose_input_has_ended_weighs_nothing_and_when_all_have_there_is_no_step() -> None:
    model = Linear(count=16)
    cluster = InProcessCluster(model, 2, 2, update="sync", optimizer="sgd", learning_rate=RATE, batch_size=8, epochs=1)
    cluster.start()
    initial = cluster.values()
    assert cluster.sessions[1].run(cluster.steps[1].batches.examples) == 8  # worker 1's only batch is gone
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


@pytest.mark.parametrize(("update", "num_workers"), [("async", 1), ("sync", 2)])
def test_two_runs_with_the_same_seed_are_bit_equal(update: str, num_workers: int) -> None:
    results = []
    for _ in range(2):
        cluster = InProcessCluster(
            Digits(hidden=16), 1, num_workers, update=update, batch_size=16, shuffle_buffer=10_000, seed=5
        )
        cluster.start()
        cluster.train(40)
        results.append(cluster.values())
    assert results[0].keys() == results[1].keys()
    for name, value in results[0].items():
        assert np.array_equal(value, results[1][name]), name


def test_initial_values_do_not_depend_on_the_number_of_ps_but_on_the_seed() -> None:
    values = []
    for num_ps, seed in ((1, 5), (3, 5), (1, 6)):
        cluster = InProcessCluster(Digits(hidden=16), num_ps, 1, seed=seed)
        cluster.start()
        values.append(cluster.values()["hidden1/weights"])
    assert np.array_equal(values[0], values[1])
    assert not np.array_equal(values[0], values[2])


@pytest.mark.parametrize("update", ["async", "bounded"])
def test_concurrent_workers_count_every_step_once_and_lose_no_update(update: str) -> None:
    cluster = InProcessCluster(Recording(count=64), 2, 4, batch_size=4, update=update)
    cluster.start()
    cluster.train(50)
    assert cluster.global_step() == 200
    assert cluster.values()["ps_train/examples"] == 800
    # Each worker has 16 examples: 12 times all of them, and once more the first 8.
    expected = np.repeat([13, 12], 32)
    for counts in used(cluster):
        np.testing.assert_array_equal(counts, expected)


def test_the_step_that_is_fetched_is_the_one_after_the_update() -> None:
    cluster = InProcessCluster(Linear(), 1, 1, batch_size=4)
    cluster.start()
    step, session = cluster.steps[0], cluster.sessions[0]
    for number in range(1, 21):
        assert session.run({"train": step.ops.train, "step": step.ops.step_after})["step"] == number


@pytest.mark.parametrize("update", ["async", "bounded"])
def test_steps_beyond_max_steps_change_nothing(update: str) -> None:
    """As a worker makes them that slept while its steps were handed out again."""
    cluster = InProcessCluster(Linear(), 1, 1, update=update, max_steps=3)
    cluster.start()
    cluster.train(3)
    before = cluster.values()
    cluster.train(2)
    after = cluster.values()
    assert cluster.global_step() == 3
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("update", ["async", "bounded", "sync"])
def test_a_worker_that_slept_makes_no_step_beyond_max_steps(update: str) -> None:
    """Its steps were handed out again while it slept."""
    cluster = InProcessCluster(Recording(count=64), 1, 1, batch_size=4, update=update, max_steps=3)
    cluster.start()
    in_parallel([lambda: cluster.train(5)])
    assert cluster.global_step() == 3
    assert cluster.values()["ps_train/examples"] == 12
    assert [int(np.sign(counts).sum()) for counts in used(cluster)] == [12, 12]
