"""--sharding=dynamic: every example of an epoch is used exactly once, whoever dies, sleeps, comes or goes.

It is checked by values: each use of an example adds one to its element of the model's variables.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.cluster import InProcessCluster, in_parallel
from tests.support.recording import Recording, SharingWorker, used

EPOCHS = {"sharding": "dynamic", "batch_size": 8, "epochs": 1, "max_steps": 100_000}


def workers_of(cluster, **more):
    return [SharingWorker(cluster, index, **more) for index in range(len(cluster.steps))]


def run_all(cluster):
    workers = workers_of(cluster)
    in_parallel([worker.run for worker in workers], within_secs=60)
    return workers


def assert_each_was_used(cluster, times):
    for counts in used(cluster):
        np.testing.assert_array_equal(counts, np.full(len(counts), times))


@pytest.mark.parametrize("num_ps, num_workers, run", [(1, 1, "1"), (2, 2, "1"), (2, 3, "4")])
def test_of_some_epochs_every_example_is_used_as_many_times(num_ps, num_workers, run):
    fields = {**EPOCHS, "epochs": 3, "steps_per_run": run, "shuffle_buffer": 100}
    cluster = InProcessCluster(Recording(), num_ps, num_workers, **fields)
    cluster.start()
    run_all(cluster)
    assert_each_was_used(cluster, 3)
    assert cluster.values()["ps_train/examples"] == 3000
    assert cluster.values()["ps_train/dropped"] == 0


@pytest.mark.parametrize("num_ps", [1, 2])
@pytest.mark.parametrize("run", ["1", "4"])
def test_under_sync_too(num_ps, run):
    cluster = InProcessCluster(Recording(ones=True), num_ps, 2, update="sync", steps_per_run=run, **EPOCHS)
    cluster.start()
    run_all(cluster)
    assert_each_was_used(cluster, 1)


def test_under_bounded_staleness_too():
    cluster = InProcessCluster(Recording(), 2, 2, update="bounded", **EPOCHS)
    cluster.start()
    run_all(cluster)
    assert_each_was_used(cluster, 1)
