"""Distributed training computes what one process computes."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.models.digits import Digits
from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.data.recording import Recording, used
from tests.support.long import long
from tests.support.models.small import Linear

OPTIMIZERS = ["sgd", "momentum", "adam", "adagrad"]


RATE = 0.05


def differences(distributed: dict[str, np.ndarray], plain: dict[str, np.ndarray]) -> dict[str, float]:
    """Largest difference of each variable, relative where its values are above 1 (Adagrad's accumulators are)."""
    scale = {name: max(1.0, float(np.abs(value).max())) for name, value in plain.items()}
    return {name: float(np.abs(distributed[name] - value).max()) / scale[name] for name, value in plain.items()}


@pytest.mark.parametrize(("update", "num_workers"), [("async", 1), ("sync", 2)])
@pytest.mark.usual(1)
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


@pytest.mark.parametrize("update", ["async", long("bounded")])
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


@pytest.mark.usual(1)
@pytest.mark.parametrize("update", ["async", "bounded", "sync"])
def test_a_worker_that_slept_makes_no_step_beyond_max_steps(update: str) -> None:
    """Its steps were handed out again while it slept."""
    cluster = InProcessCluster(Recording(count=64), 1, 1, batch_size=4, update=update, max_steps=3)
    cluster.start()
    in_parallel([lambda: cluster.train(5)])
    assert cluster.global_step() == 3
    assert cluster.values()["ps_train/examples"] == 12
    assert [int(np.sign(counts).sum()) for counts in used(cluster)] == [12, 12]
