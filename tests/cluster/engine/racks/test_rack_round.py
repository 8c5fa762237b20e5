"""Workers in racks compute what one process computes on their joined batches, and no gradient counts twice."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from ps_train.engine.step.parts.rack import Rack
from ps_train.modeling.model import make_optimizer
from tests.support.clusters.cluster import InProcessCluster, batches_of, in_parallel, train_plainly
from tests.support.long import long
from tests.support.machine.processes import eventually
from tests.support.models.small import Heavy, Linear

RATE, BATCH = 0.05, 4


def racked(
    model: Linear, num_ps: int, racks: str, optimizer: str = "sgd", num_workers: int = 0, **fields: object
) -> InProcessCluster:
    """A job with the given racks of its workers; for an empty text as many workers without racks."""
    cluster = InProcessCluster(
        model,
        num_ps,
        num_workers or len(racks),
        racks=list(racks),
        rack=racks[:1],
        update="sync",
        optimizer=optimizer,
        learning_rate=RATE,
        batch_size=BATCH,
        partition_bytes=8,
        **fields,
    )
    cluster.start()
    return cluster


def start_relays(cluster: InProcessCluster) -> list[threading.Thread]:
    assert cluster.topology is not None
    first = [int(workers[0].partition(":")[2]) for workers in cluster.topology.workers]
    return [cluster.start_relay(index) for index in first]


def rack_step(cluster: InProcessCluster, index: int) -> int:
    """One step of a worker; returns the global step after it."""
    ops = cluster.steps[index].ops
    return int(cluster.sessions[index].run([ops.train, ops.step_after])[1])


@pytest.mark.parametrize(
    ("racks", "num_ps", "optimizer"), [("aabb", 2, "adam"), long("aab", 2, "sgd"), long("abab", 3, "adagrad")]
)
def test_racks_equal_one_process_on_the_joined_batches(racks: str, num_ps: int, optimizer: str) -> None:
    model = Linear(count=120, width=5)
    cluster = racked(model, num_ps, racks, optimizer, max_steps=20)
    initial = cluster.values()
    relays = start_relays(cluster)
    cluster.train(20)
    for relay in relays:
        relay.join(20)
        assert not relay.is_alive(), "it ends with the last step"
    joined = batches_of(model, BATCH * len(racks), 20)
    plain = train_plainly(model, lambda: make_optimizer(optimizer, RATE), initial, joined)
    values = cluster.values()
    for name, value in plain.items():
        assert np.abs(values[name] - value).max() <= 1e-5 * max(1.0, np.abs(value).max()), name
    assert cluster.global_step() == 20
    assert values["ps_train/examples"] == 20 * BATCH * len(racks)
    assert rack_step(cluster, 0) == 20, "a step after the last one waits for no other"


@pytest.mark.long
def test_large_gradients_of_racks_are_weighed_once() -> None:
    model = Heavy(count=48)
    cluster = racked(model, 1, "aabb", max_steps=3)
    initial = cluster.values()
    relays = start_relays(cluster)
    cluster.train(3)
    for relay in relays:
        relay.join(20)
    plain = train_plainly(model, lambda: make_optimizer("sgd", RATE), initial, batches_of(model, BATCH * 4, 3))
    for name, value in plain.items():
        assert np.abs(cluster.values()[name] - value).max() <= 1e-6, name


class Whole(Linear):
    """Gradients are whole numbers, so their sum does not depend on the order of addition."""

    def data(self, split: str, data_dir: str) -> Arrays:
        x = np.arange(self.count * self.width).reshape(self.count, self.width) % 16
        return Arrays(x.astype(np.float32), np.zeros(self.count, np.float32))

    def forward(self, features, training):
        w = v1.get_variable("w", [self.width], initializer=v1.zeros_initializer())
        return tf.linalg.matvec(features, w)

    def loss(self, outputs, labels):
        return tf.reduce_mean(outputs)


@pytest.mark.long
def test_racks_equal_a_flat_sum_to_the_bit_where_the_order_of_addition_is_without_effect() -> None:
    found, expected = (trained_by(Whole(count=100, width=6), racks, 5, 12, "sgd") for racks in ("aaabb", ""))
    for name, value in found.items():
        assert np.array_equal(value, expected[name]), name


@pytest.mark.long
def test_racks_equal_a_flat_sum_to_a_millionth() -> None:
    found, expected = (trained_by(Linear(count=400, width=50), racks, 8, 100, "momentum") for racks in ("abbaaaac", ""))
    for name, value in found.items():
        assert np.abs(value - expected[name]).max() <= 1e-6 * max(1.0, np.abs(expected[name]).max()), name


def trained_by(model: Linear, racks: str, num_workers: int, steps: int, optimizer: str) -> dict[str, np.ndarray]:
    cluster = racked(model, 2, racks, optimizer, num_workers, max_steps=steps)
    if racks:
        start_relays(cluster)
    cluster.train(steps)
    return cluster.values()


def test_a_rack_goes_on_without_a_worker_that_left_and_with_it_when_it_is_back() -> None:
    cluster = racked(Linear(count=120), 2, "aabb", max_steps=1000)
    start_relays(cluster)
    cluster.train(2)
    (rack,) = cluster.steps[0].parts.of(Rack)
    ops = rack.ops
    waiting = threading.Thread(target=lambda: cluster.train_of([0, 2, 3], 2), daemon=True)
    waiting.start()
    eventually(lambda: cluster.arrived(0)[0] == 1, 10, "the push of worker 0")
    assert cluster.global_step() == 2
    cluster.sessions[0].run(ops.leave, {ops.leaver: 1})
    waiting.join(20)
    assert not waiting.is_alive() and cluster.global_step() == 4
    assert cluster.values()["ps_train/examples"] == BATCH * (2 * 4 + 2 * 3)
    joining = threading.Thread(target=lambda: rack_step(cluster, 1), daemon=True)
    joining.start()
    eventually(lambda: cluster.membership(0)[1] != 0, 10, "the return of worker 1")
    cluster.train_of([0, 2, 3], 1)  # the round in which it comes back does not wait for it
    joining.join(20)
    assert not joining.is_alive() and cluster.global_step() == 5
    cluster.train(1)
    assert cluster.values()["ps_train/examples"] == BATCH * (2 * 4 + 3 * 3 + 4)


@pytest.mark.long
def test_another_aggregator_makes_the_round_again_and_no_gradient_counts_twice() -> None:
    model = Whole(count=100, width=6)
    cluster = racked(model, 2, "aab", max_steps=1000)
    start_relays(cluster)
    cluster.train(3)
    cluster.change_rack_server("a")
    for index in (0, 1):
        cluster.open_again(index)
    in_parallel([lambda: rack_step(cluster, 2), lambda: again(cluster)])
    assert cluster.global_step() == 4
    assert cluster.values()["ps_train/examples"] == 4 * 3 * BATCH


def again(cluster: InProcessCluster) -> None:
    cluster.start_relay(1)
    in_parallel([lambda: rack_step(cluster, 0), lambda: rack_step(cluster, 1)])


@pytest.mark.long
def test_a_relay_of_before_pushes_nothing_when_the_rack_begins_again() -> None:
    cluster = racked(Linear(count=120), 1, "ab", max_steps=1000)
    relay, _ = start_relays(cluster)
    cluster.train(2)
    before = cluster.values()
    (rack,) = cluster.steps[0].parts.of(Rack)
    ops, session = rack.ops, cluster.sessions[0]
    session.run(ops.reset)
    relay.join(20)
    assert not relay.is_alive()
    assert not session.run(ops.is_published)
    assert rack_step(cluster, 0) == 2, "no push counts before there are values"
    assert np.array_equal(cluster.values()["w"], before["w"])
    cluster.start_relay(0)
    cluster.train(1)
    assert cluster.global_step() == 3
    assert cluster.values()["ps_train/examples"] == 3 * 2 * BATCH
