"""Staleness: what is measured is what happened, and each rule for stale gradients does what it promises.

Worker 0 is held between its pull and its push while worker 1 makes updates, so that the order is known and can be
replayed with numpy.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.modes.staleness import summary
from ps_train.modeling.model import make_optimizer
from tests.support.clusters.cluster import InProcessCluster, batches_of, in_parallel
from tests.support.long import long
from tests.support.models.small import Linear

RATE, BATCH, BETWEEN = 0.05, 4, 3


class Held(Linear):
    """One vector of weights; between pull and gradient worker 0 waits for `go`, once `hold` is set."""

    def __init__(self) -> None:
        super().__init__(count=80)
        self.builds = 0
        self.hold, self.pulled, self.go = threading.Event(), threading.Event(), threading.Event()

    def forward(self, features, training):
        self.builds += 1
        first_worker = self.builds == 2  # the first time was the trace

        def wait(values):
            if first_worker and self.hold.is_set():
                self.pulled.set()
                assert self.go.wait(20)
            return values

        w = v1.get_variable("w", [self.width, 1])
        passed = tf.stop_gradient(tf.numpy_function(wait, [w], tf.float32) - w)  # zero, but only after the wait
        return tf.squeeze(features @ (w + tf.reshape(passed, w.shape)), 1)


def gradient_of(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> np.ndarray:
    return (2 * x.T @ (x @ w[:, 0] - y) / len(y))[:, None]


def play(**fields) -> tuple[InProcessCluster, dict[str, np.ndarray]]:
    """A cluster after: worker 0 pulls, worker 1 makes updates, worker 0 pushes; and the values of w in between."""
    model = Held()
    fields = {"optimizer": "sgd", "learning_rate": RATE, "batch_size": BATCH, **fields}
    cluster = InProcessCluster(model, 1, 2, **fields)
    cluster.start()
    values = {"before": cluster.values()["w"].astype(np.float64)}
    model.hold.set()

    def others() -> None:
        assert model.pulled.wait(20)
        for _ in range(BETWEEN):
            cluster.sessions[1].run(cluster.steps[1].ops.train)
        values["between"] = cluster.values()["w"].astype(np.float64)
        model.go.set()

    in_parallel([lambda: cluster.sessions[0].run(cluster.steps[0].ops.train), others])
    values["after"] = cluster.values()["w"]
    return cluster, values


def held_gradient(values: dict[str, np.ndarray]) -> np.ndarray:
    """Worker 0's first batch is every second of the first examples."""
    x, y = batches_of(Held(), 2 * BATCH, 1)[0]
    return gradient_of(x[::2], y[::2], values["before"])


def test_staleness_is_the_number_of_updates_between_pull_and_apply() -> None:
    cluster, values = play()
    counts = cluster.sessions[0].run(cluster.steps[0].ps.counters.staleness)
    assert counts[0, BETWEEN] == 1 and counts[0].sum() == 1
    assert counts[1, 0] == BETWEEN and counts[1].sum() == BETWEEN
    assert summary(counts) == {
        "mean": 0.75, "p95": 3, "max": 3, "conflict_rate": 0.25, "histogram": {"0": 3, "3": 1}
    }  # fmt: skip
    np.testing.assert_allclose(values["after"], values["between"] - RATE * held_gradient(values), atol=1e-6)


def test_staleness_lr_divides_the_learning_rate_by_the_staleness() -> None:
    cluster, values = play(divide_lr_by_staleness=True)
    expected = values["between"] - RATE / BETWEEN * held_gradient(values)
    np.testing.assert_allclose(values["after"], expected, atol=1e-6)
    assert cluster.global_step() == BETWEEN + 1


@pytest.mark.usual(1)
@pytest.mark.parametrize(("limit", "made"), [(BETWEEN - 1, 0), (BETWEEN, 1)])
def test_max_staleness_drops_what_is_older_and_counts_it(limit: int, made: int) -> None:
    cluster, values = play(max_staleness=limit)
    expected = values["between"] - made * RATE * held_gradient(values)
    np.testing.assert_allclose(values["after"], expected, atol=1e-6)
    assert cluster.global_step() == BETWEEN + made
    assert cluster.values()["ps_train/dropped"] == 1 - made
    assert cluster.values()["ps_train/examples"] == BATCH * (BETWEEN + made)


def test_rules_apply_together() -> None:
    cluster, values = play(divide_lr_by_staleness=True, max_staleness=BETWEEN)
    expected = values["between"] - RATE / BETWEEN * held_gradient(values)
    np.testing.assert_allclose(values["after"], expected, rtol=1e-6, atol=1e-6)
    assert cluster.values()["ps_train/dropped"] == 0


@pytest.mark.parametrize("optimizer", ["adam", "momentum", long("adagrad"), long("rmsprop"), long("ftrl")])
def test_a_stale_gradient_changes_values_and_slots_as_tensorflows_own_optimizer_does(optimizer: str) -> None:
    cluster, values = play(optimizer=optimizer)
    batches = batches_of(Held(), 2 * BATCH, BETWEEN)
    fresh = [(x[1::2], y[1::2]) for x, y in batches]  # worker 1 has every second example
    stale = batches[0][0][::2], batches[0][1][::2]
    expected = train_in_order(optimizer, values["before"], fresh, stale)
    found = cluster.values()
    assert cluster.global_step() == BETWEEN + 1 and len(expected) > 1, "no slots are compared"
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-7, err_msg=name)


def train_in_order(optimizer: str, initial: np.ndarray, fresh: list, stale: tuple) -> dict[str, np.ndarray]:
    """The variables of a plain session after the gradients of `fresh`, then one of the initial values on `stale`."""
    with tf.Graph().as_default(), v1.Session() as session:
        w = v1.get_variable("w", initializer=initial.astype(np.float32))
        gradient = v1.placeholder(tf.float32, w.shape)
        apply = make_optimizer(optimizer, RATE).apply_gradients([(gradient, w)])
        session.run(v1.global_variables_initializer())
        for x, y in fresh:
            session.run(apply, {gradient: gradient_of(x, y, session.run(w).astype(np.float64))})
        session.run(apply, {gradient: gradient_of(*stale, initial)})
        return {variable.op.name: session.run(variable) for variable in v1.global_variables()}


@pytest.mark.long
def test_adam_counts_every_step_when_many_updates_arrive_together() -> None:
    cluster = InProcessCluster(Linear(), 1, 4, optimizer="adam", batch_size=4)
    cluster.start()
    cluster.train(100)
    values = cluster.values()
    assert values["global_step"] == 400
    np.testing.assert_allclose(values["beta1_power"], 0.9**401, rtol=1e-3)
    np.testing.assert_allclose(values["beta2_power"], 0.999**401, rtol=1e-3)
    counts = cluster.sessions[0].run(cluster.steps[0].ps.counters.staleness)
    assert counts.sum() == 400 and list(counts.sum(axis=1)) == [100] * 4
