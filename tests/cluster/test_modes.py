"""The contract of all update modes: what holds whatever `--update` says."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.updates.gradients.push_guard import NOT_FINITE
from ps_train.modeling.model import make_optimizer
from ps_train.training.loop.loop import LoopExit
from tests.support.clusters.cluster import InProcessCluster, batches_of, in_parallel, train_plainly
from tests.support.clusters.loops import pace_for, run_worker
from tests.support.long import long
from tests.support.models.small import Linear

MODES = {
    "async": {"update": "async"},
    "bounded, lead 0": {"update": "bounded", "max_steps_ahead": 0},
    "bounded, lead 2": {"update": "bounded", "max_steps_ahead": 2},
    "sync": {"update": "sync"},
    "sync, 1 backup": {"update": "sync", "backup_workers": 1},
}
RATE = 0.05

_LIKE_OTHERS = ("bounded, lead 0", "bounded, lead 2", "sync, 1 backup")
every_mode = pytest.mark.parametrize(
    "mode", [long(mode) if name in _LIKE_OTHERS else mode for name, mode in MODES.items()], ids=MODES.keys()
)
one_or_two_ps = pytest.mark.parametrize("num_ps", [long(1), 2])


def cluster_of(workers: int, mode: dict, num_ps: int = 1, model: Linear | None = None, **fields) -> InProcessCluster:
    settings = {"optimizer": "sgd", "learning_rate": RATE, "batch_size": 4, **mode, **fields}
    cluster = InProcessCluster(model or Linear(count=120, width=5), num_ps, workers, partition_bytes=8, **settings)
    cluster.start()
    return cluster


def never() -> bool:
    return False


@every_mode
@one_or_two_ps
@pytest.mark.parametrize("optimizer", [long("sgd"), long("momentum"), "adam", long("adagrad")])
@pytest.mark.usual(1)
def test_a_worker_that_is_left_alone_equals_a_plain_session(mode: dict, num_ps: int, optimizer: str) -> None:
    model = Linear(count=120, width=5)
    cluster = cluster_of(2, mode, num_ps, model, optimizer=optimizer)
    initial = cluster.values()
    cluster.dismiss(1)
    for _ in range(20):
        cluster.sessions[0].run(cluster.steps[0].ops.train)
    share = [(x[0::2], y[0::2]) for x, y in batches_of(model, 8, 20)]  # worker 0 has every other example
    plain = train_plainly(model, lambda: make_optimizer(optimizer, RATE), initial, share)
    found = cluster.values()
    for name, value in plain.items():
        np.testing.assert_allclose(found[name], value, atol=1e-6, rtol=1e-6, err_msg=name)
    assert cluster.global_step() == 20


@pytest.mark.usual(1)
@every_mode
@one_or_two_ps
def test_all_workers_end_and_the_global_step_is_exactly_max_steps(mode: dict, num_ps: int) -> None:
    cluster = cluster_of(3, mode, num_ps, max_steps=41)
    pace, why = pace_for(cluster), {}

    def work(index: int) -> None:
        why[index] = run_worker(cluster, index, pace, never)

    in_parallel([lambda index=index: work(index) for index in range(3)])
    assert why == {0: LoopExit.STEPS, 1: LoopExit.STEPS, 2: LoopExit.STEPS}
    assert cluster.global_step() == 41


@pytest.mark.long
@every_mode
@one_or_two_ps
def test_no_worker_waits_for_one_that_was_removed_in_the_middle_of_training(mode: dict, num_ps: int) -> None:
    cluster = cluster_of(3, mode, num_ps, max_steps=60)
    pace, silent, why = pace_for(cluster), threading.Event(), {}

    def work(index: int) -> None:
        why[index] = run_worker(cluster, index, pace, never)

    def die() -> None:
        for _ in range(7):
            cluster.sessions[2].run(cluster.steps[2].ops.train)
        silent.set()

    def watch() -> None:
        assert silent.wait(30)
        cluster.dismiss(2)

    in_parallel([lambda: work(0), lambda: work(1), die, watch])
    assert why == {0: LoopExit.STEPS, 1: LoopExit.STEPS}
    assert cluster.global_step() == 60, "though under async and bounded the dead one's steps were not of the budget"


@every_mode
@one_or_two_ps
@pytest.mark.usual(1)
def test_a_worker_that_comes_back_takes_part_again(mode: dict, num_ps: int) -> None:
    cluster = cluster_of(2, mode, num_ps, max_steps=100)
    cluster.dismiss(1)
    for _ in range(10):
        cluster.sessions[0].run(cluster.steps[0].ops.train)
    before = cluster.values()["ps_train/examples"]

    def work(index: int) -> None:
        for _ in range(10):
            cluster.sessions[index].run(cluster.steps[index].ops.train)
        cluster.dismiss(index, by=index)

    in_parallel([lambda: work(0), lambda: work(1)])
    added = cluster.values()["ps_train/examples"] - before
    # The first step may only announce it; from then on everybody's examples count, except what comes too late.
    least = 4 * (10 + 9) if not cluster.job.backup_workers else 4 * 10
    assert least <= added <= 4 * 20, added


@pytest.mark.long
@every_mode
def test_every_worker_whose_input_ends_leaves_and_the_others_go_on(mode: dict) -> None:
    cluster = cluster_of(2, mode, model=Linear(count=43), epochs=1, max_steps=1000)  # 22 and 21 examples
    cluster.sessions[1].run([cluster.steps[1].worker.batches.labels])  # worker 1 is one batch ahead
    pace, why = pace_for(cluster), {}

    def work(index: int) -> None:
        why[index] = run_worker(cluster, index, pace, never)

    in_parallel([lambda: work(0), lambda: work(1)])
    assert why == {0: LoopExit.INPUT, 1: LoopExit.INPUT}
    examples = cluster.values()["ps_train/examples"]
    assert examples == 43 - 4 or (cluster.job.backup_workers and examples < 43 - 4), "each example once"


@every_mode
@pytest.mark.usual(1)
def test_a_worker_stops_when_it_is_told_to_and_leaves(mode: dict) -> None:
    cluster = cluster_of(2, mode, max_steps=10**9)
    stop, pace, why = threading.Event(), pace_for(cluster), {}

    def work(index: int) -> None:
        why[index] = run_worker(cluster, index, pace, stop.is_set)

    def end() -> None:
        while cluster.global_step() < 20:
            pass
        stop.set()

    in_parallel([lambda: work(0), lambda: work(1), end])
    assert why == {0: LoopExit.STOPPED, 1: LoopExit.STOPPED}


class Bad(Linear):
    """The features of example 8 are no numbers."""

    def data(self, split, data_dir):
        arrays = super().data(split, data_dir)
        arrays.features[8] = np.nan
        return arrays


@pytest.mark.long
@every_mode
def test_a_gradient_that_is_no_number_is_never_applied(mode: dict) -> None:
    cluster = cluster_of(1 if not mode.get("backup_workers") else 2, mode, model=Bad(count=24))
    cluster.dismiss(1) if mode.get("backup_workers") else None
    with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
        for _ in range(6):
            cluster.sessions[0].run(cluster.steps[0].ops.train)
    assert all(np.all(np.isfinite(value)) for value in cluster.values().values())
    assert 0 < cluster.global_step() < 6


@pytest.mark.usual(1)
@every_mode
@one_or_two_ps
def test_a_gradient_that_is_no_number_is_skipped_and_counted_if_so_wished(mode: dict, num_ps: int) -> None:
    cluster = cluster_of(2, mode, num_ps, model=Bad(count=24), on_nan="skip")
    cluster.dismiss(1)
    for _ in range(6):  # the bad example of worker 0 comes once in three batches
        cluster.sessions[0].run(cluster.steps[0].ops.train)
    found = cluster.values()
    assert all(np.all(np.isfinite(value)) for value in found.values())
    assert (found["ps_train/skipped"], cluster.global_step()) == (2, 4)


@every_mode
@pytest.mark.usual(1)
def test_training_goes_on_from_a_checkpoint_on_other_ps(mode: dict, tmp_path) -> None:
    settings = {"optimizer": "adam", "learning_rate": RATE, "batch_size": 4, **mode}
    one = InProcessCluster(Linear(count=120, width=5), 2, 2, tmp_path, partition_bytes=8, **settings)
    one.start()
    one.train(10)
    assert one.checkpoints is not None
    saved = one.checkpoints.save(one.sessions[0])
    two = InProcessCluster(Linear(count=120, width=5), 1, 2, tmp_path, **settings)
    assert two.start(restore=True) == saved
    expected, found = one.values(), two.values()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    two.train(10)
    assert two.global_step() > saved
