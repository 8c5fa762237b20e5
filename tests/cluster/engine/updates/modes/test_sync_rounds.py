"""Rounds of synchronous updates: their members, when they are complete, and late gradients."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from ps_train.engine.updates.modes.quorum import JOINING
from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.long import long
from tests.support.machine.processes import eventually
from tests.support.models.small import Linear

RATE, BATCH, WORKERS = 0.05, 4, 3


class Held(Linear):
    """Weights without a bias; worker i waits in front of its push while `hold[i]` is set."""

    def __init__(self, width: int = 3) -> None:
        super().__init__(count=120, width=width)
        self.builds = 0
        self.hold = [threading.Event() for _ in range(WORKERS)]
        self.reached = [threading.Event() for _ in range(WORKERS)]

    def forward(self, features, training):
        index = self.builds - 1  # the first time is the trace
        self.builds += 1

        def wait(values):
            if index >= 0 and self.hold[index].is_set():
                self.reached[index].set()
                eventually(lambda: not self.hold[index].is_set(), 20, "the worker's release")
            return values

        w = v1.get_variable("w", [self.width, 1])
        passed = tf.stop_gradient(tf.numpy_function(wait, [w], tf.float32) - w)
        return tf.squeeze(features @ (w + tf.reshape(passed, w.shape)), 1)


def made(num_ps: int = 1, backups: int = 0, model: Linear | None = None) -> tuple[InProcessCluster, Linear]:
    model = model or Held()
    cluster = InProcessCluster(
        model,
        num_ps,
        WORKERS,
        update="sync",
        optimizer="sgd",
        learning_rate=RATE,
        batch_size=BATCH,
        backup_workers=backups,
        partition_bytes=4,
    )
    cluster.start()
    return cluster, model


def step(cluster: InProcessCluster, index: int) -> None:
    cluster.sessions[index].run(cluster.steps[index].ops.train)


def after_update(w: np.ndarray, model: Linear, number: int, *workers: int) -> np.ndarray:
    """What SGD makes of w with the mean gradient of those workers' batches of that number."""
    data = model.data("train", "")
    rows = np.concatenate([np.arange(number * BATCH, (number + 1) * BATCH) * WORKERS + i for i in workers])
    x, y = data.features[rows % len(data)], data.labels[rows % len(data)]
    return w - RATE * (2 * x.T @ (x @ w[:, 0] - y) / len(y))[:, None]


one_or_two_ps = pytest.mark.parametrize("num_ps", [long(1), 2])


@one_or_two_ps
def test_with_a_backup_the_update_is_the_mean_of_the_others_and_the_late_gradient_is_dropped(num_ps: int) -> None:
    cluster, model = made(num_ps, backups=1)
    w = cluster.values()["w"]
    model.hold[0].set()

    def others() -> None:
        assert model.reached[0].wait(20)
        for number in range(2):
            in_parallel([lambda: step(cluster, 1), lambda: step(cluster, 2)])
            nonlocal w
            w = after_update(w, model, number, 1, 2)
        np.testing.assert_allclose(cluster.values()["w"], w, atol=1e-6)
        model.hold[0].clear()

    in_parallel([lambda: step(cluster, 0), others])
    np.testing.assert_allclose(cluster.values()["w"], w, atol=1e-6)
    found = cluster.values()
    assert (cluster.global_step(), found["ps_train/dropped"], found["ps_train/examples"]) == (2, 1, 16)
    in_parallel([lambda: step(cluster, 0), lambda: step(cluster, 1)])  # and now he is in time
    data_0, data_1 = after_update(w, model, 1, 0), after_update(w, model, 2, 1)
    np.testing.assert_allclose(cluster.values()["w"], (data_0 + data_1) / 2, atol=1e-6)


@pytest.mark.long
@one_or_two_ps
def test_a_replica_that_leaves_is_not_waited_for_and_when_it_is_back_belongs_to_the_round_after(num_ps: int) -> None:
    cluster, model = made(num_ps)
    w = cluster.values()["w"]
    model.hold[0].set()

    def scene() -> None:
        nonlocal w
        assert model.reached[0].wait(20)
        eventually(lambda: arrived(cluster) == 2, 20, "the others' push")
        assert cluster.global_step() == 0
        cluster.dismiss(0, by=1)
        w = after_update(w, model, 0, 1, 2)
        eventually(lambda: cluster.global_step() == 1, 20, "the update without worker 0")
        np.testing.assert_allclose(cluster.values()["w"], w, atol=1e-6)
        model.hold[0].clear()  # his push is of a round that is over, and he is no member: he waits for the next
        eventually(lambda: standing(cluster)[0] == JOINING, 20, "his coming")
        in_parallel([lambda: step(cluster, 1), lambda: step(cluster, 2)])
        w = after_update(w, model, 1, 1, 2)

    in_parallel([lambda: step(cluster, 1), lambda: step(cluster, 2), scene, lambda: step(cluster, 0)])
    np.testing.assert_allclose(cluster.values()["w"], w, atol=1e-6)
    in_parallel([lambda index=index: step(cluster, index) for index in range(3)])
    each = [after_update(w, model, number, index) for index, number in ((0, 1), (1, 2), (2, 2))]
    np.testing.assert_allclose(cluster.values()["w"], np.mean(each, axis=0), atol=1e-6)
    assert (cluster.global_step(), cluster.values()["ps_train/dropped"]) == (3, 0)


@pytest.mark.long
@one_or_two_ps
def test_a_gradient_that_arrived_before_its_worker_left_counts(num_ps: int) -> None:
    cluster, model = made(num_ps)
    w = cluster.values()["w"]

    def scene() -> None:
        eventually(lambda: arrived(cluster) == 1, 20, "worker 0's push")
        cluster.dismiss(0, by=1)

    in_parallel([lambda: step(cluster, 0), scene])  # he waits for nobody any more either
    assert cluster.global_step() == 0
    in_parallel([lambda: step(cluster, 1), lambda: step(cluster, 2)])
    np.testing.assert_allclose(cluster.values()["w"], after_update(w, model, 0, 0, 1, 2), atol=1e-6)


@pytest.mark.long
def test_a_gradient_of_values_from_two_different_rounds_is_dropped() -> None:
    """A worker that comes back may pull from one ps before an update and from the other one after it."""
    cluster, model = made(2)
    w = cluster.values()["w"]
    with cluster.steps[0].graph.as_default():
        ahead = cluster.steps[0].ops.push_counters[1].assign_add(1, read_value=False)
        level = cluster.steps[0].ops.push_counters[1].assign_sub(1, read_value=False)
    cluster.sessions[0].run(ahead)
    in_parallel([lambda: step(cluster, 0)], within_secs=15)
    cluster.sessions[0].run(level)
    assert cluster.values()["ps_train/dropped"] == 1
    assert arrived(cluster) == cluster.global_step() == 0
    in_parallel([lambda index=index: step(cluster, index) for index in range(3)])
    each = [after_update(w, model, number, index) for index, number in ((0, 1), (1, 0), (2, 0))]
    np.testing.assert_allclose(cluster.values()["w"], np.mean(each, axis=0), atol=1e-6)


@pytest.mark.long
@one_or_two_ps
def test_when_all_have_left_a_replica_that_comes_again_trains_alone(num_ps: int) -> None:
    cluster, model = made(num_ps)
    w = cluster.values()["w"]
    for index in range(WORKERS):
        cluster.dismiss(index)
    step(cluster, 2)  # announces him
    assert cluster.global_step() == 0
    step(cluster, 2)
    np.testing.assert_allclose(cluster.values()["w"], after_update(w, model, 1, 2), atol=1e-6)


@pytest.mark.long
@one_or_two_ps
def test_a_joining_replica_does_not_wait_for_a_round_that_no_replica_is_left_to_make(num_ps: int) -> None:
    cluster, _ = made(num_ps)
    cluster.dismiss(0)

    def leave() -> None:
        eventually(lambda: standing(cluster)[0] == JOINING, 20, "his coming")
        cluster.dismiss(1, by=1)
        cluster.dismiss(2, by=1)

    in_parallel([lambda: step(cluster, 0), leave])
    assert cluster.global_step() == 0
    step(cluster, 0)
    assert cluster.global_step() == 1


@pytest.mark.long
def test_no_replica_is_taken_twice_into_one_round() -> None:
    """As when a worker is started anew while the gradient of its earlier process is in the round."""
    cluster, _ = made()
    twice = [threading.Thread(target=step, args=[cluster, 0], daemon=True) for _ in range(2)]
    twice[0].start()
    eventually(lambda: arrived(cluster) == 1, 20, "his push")
    twice[1].start()
    in_parallel([lambda: step(cluster, 1), lambda: step(cluster, 2)])
    assert (cluster.global_step(), cluster.values()["ps_train/examples"]) == (1, WORKERS * BATCH)
    for index in range(WORKERS):  # of two that wait in one name, only one hears of the round's end
        cluster.dismiss(index)
    eventually(lambda: not any(thread.is_alive() for thread in twice), 20, "the end of both")


class Twins(Linear):
    """Two columns that are the same in data and weights, and live on two ps."""

    def data(self, split, data_dir):
        x = np.random.default_rng(3).normal(size=(240, 1)).astype(np.float32)
        return Arrays(np.repeat(x, 2, axis=1), 3 * x[:, 0])

    def forward(self, features, training):
        return tf.squeeze(features @ v1.get_variable("w", [2, 1], initializer=v1.zeros_initializer()), 1)


@pytest.mark.parametrize("backups", [0, long(1)])
@pytest.mark.long
def test_every_ps_makes_an_update_of_the_same_gradients(backups: int) -> None:
    cluster, _ = made(2, backups, Twins())
    assert sorted(piece.ps for piece in cluster.plan.slices) == [0, 1], "one column on each ps"

    all_there = []

    def work(index: int) -> None:
        for number in range(60):
            step(cluster, index)
            if number < 20:
                all_there.append(cluster.sessions[index].run([cluster.steps[index].ps.global_step, examples[index]]))
        cluster.dismiss(index, by=index)

    examples = [step.ps.counters.examples for step in cluster.steps]
    in_parallel([lambda index=index: work(index) for index in range(WORKERS)])
    w = cluster.values()["w"]
    assert w[0, 0] == w[1, 0] and abs(w[0, 0]) > 0.5
    made_of = cluster.values()["ps_train/examples"] / BATCH
    assert made_of + cluster.values()["ps_train/dropped"] == 180, "each gradient was taken or dropped"
    quorum = WORKERS - backups
    # The two are not read in the same moment: they may differ by an update that is made in between.
    assert all(abs(found / BATCH / quorum - number) <= 1 for number, found in all_there), all_there


def arrived(cluster: InProcessCluster) -> int:
    """How many have arrived in the round that the first ps makes."""
    return int(cluster.read("ps_train/round_state_0")[1].sum())


def standing(cluster: InProcessCluster) -> list[int]:
    return cluster.read("ps_train/round_state_0")[0].tolist()


@pytest.mark.long
@pytest.mark.parametrize("num_ps", [long(1), 2])
def test_after_a_reset_all_are_members_a_waiting_one_goes_on_and_a_late_push_does_not_count(num_ps: int) -> None:
    cluster, model = made(num_ps)
    model.hold[0].set()
    late = threading.Thread(target=cluster.sessions[0].run, args=[cluster.steps[0].ops.train], daemon=True)
    waits = threading.Thread(target=cluster.sessions[1].run, args=[cluster.steps[1].ops.train], daemon=True)
    for thread in (late, waits):
        thread.start()
    eventually(lambda: bool(cluster.read("ps_train/round_state_0")[1][1]), 20, "the arrival of worker 1")
    eventually(model.reached[0].is_set, 20, "worker 0 in front of its push")
    before = cluster.values()["w"]
    cluster.dismiss(2)
    cluster.sessions[2].run(cluster.steps[2].ops.reset)
    waits.join(20)
    assert not waits.is_alive()
    model.hold[0].clear()
    late.join(20)
    assert not late.is_alive()
    assert np.array_equal(cluster.values()["w"], before) and cluster.global_step() == 0
    cluster.train(2)
    assert cluster.global_step() == 2


class FirstIsBad(Linear):
    """The first batch of worker 0 has a label that is no number."""

    def data(self, split, data_dir):
        data = super().data(split, data_dir)
        labels = data.labels.copy()
        labels[0] = np.nan
        return Arrays(data.features, labels)


def test_a_gradient_that_is_left_out_of_a_round_is_counted_when_the_round_ends() -> None:
    """A checkpoint before that has neither the round nor the count: a job that resumes makes the round again."""
    cluster = InProcessCluster(FirstIsBad(count=120), 2, 2, update="sync", batch_size=BATCH, on_nan="skip")
    cluster.start()
    bad = threading.Thread(target=step, args=(cluster, 0), daemon=True)
    bad.start()
    eventually(lambda: cluster.read("ps_train/round_state_0")[1][0] == 1, 20, "the gradient of worker 0")
    assert cluster.values()["ps_train/skipped"] == 0 and cluster.global_step() == 0
    step(cluster, 1)
    bad.join(20)
    assert not bad.is_alive()
    assert cluster.values()["ps_train/skipped"] == 1 and cluster.global_step() == 1
