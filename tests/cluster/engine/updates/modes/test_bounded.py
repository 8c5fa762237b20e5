"""Bounded staleness: the lead of the fastest worker over the slowest, from recorded clocks."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.modes.wait_time import report
from tests.support.clusters.cluster import InProcessCluster, in_parallel
from tests.support.long import long
from tests.support.machine.processes import eventually
from tests.support.models.small import Linear

WORKERS, STEPS, SLOW_SECS = 3, 25, 0.02


class Recorded(Linear):
    """Writes down when each worker has computed its gradient, just before it pushes it; worker 0 is slow."""

    def __init__(self) -> None:
        super().__init__(count=120)
        self.builds = 0
        self.computed: list[list[float]] = [[] for _ in range(WORKERS)]

    def forward(self, features, training):
        index = self.builds - 1  # the first time is the trace
        self.builds += 1

        def record(values):
            if index == 0:
                time.sleep(SLOW_SECS)
            if index >= 0:
                self.computed[index].append(time.monotonic())
            return values

        w = v1.get_variable("w", [self.width, 1])
        passed = tf.stop_gradient(tf.numpy_function(record, [w], tf.float32) - w)
        return tf.squeeze(features @ (w + tf.reshape(passed, w.shape)), 1)


def trained(lead: int, num_ps: int = 1) -> tuple[Recorded, InProcessCluster, list[list[float]]]:
    """Everybody has made so many steps, worker 0 slowly; and when each began each step."""
    model = Recorded()
    cluster = InProcessCluster(
        model,
        num_ps,
        WORKERS,
        update="bounded",
        max_steps_ahead=lead,
        learning_rate=0.01,
        batch_size=4,
        partition_bytes=4,
    )
    cluster.start()
    began: list[list[float]] = [[] for _ in range(WORKERS)]

    def work(index: int) -> None:
        for _ in range(STEPS):
            began[index].append(time.monotonic())
            cluster.sessions[index].run(cluster.steps[index].ops.train)
        cluster.dismiss(index, by=index)

    in_parallel([lambda index=index: work(index) for index in range(WORKERS)])
    return model, cluster, began


@pytest.mark.parametrize("num_ps", [long(1), 2])
@pytest.mark.parametrize("lead", [0, 1, long(4)])
@pytest.mark.usual(1)
def test_no_worker_is_ever_further_ahead_of_the_slowest_than_the_bound_and_the_bound_is_used(
    lead: int, num_ps: int
) -> None:
    model, cluster, began = trained(lead, num_ps)
    leads = []
    for times in began:
        for own, now in enumerate(times):
            # Who has left when all his steps were made is waited for no more.
            made = [sum(at < now for at in other) for other in model.computed]
            leads.append(own - min(made))
    assert max(leads) == lead
    assert cluster.global_step() == WORKERS * STEPS


@pytest.mark.long
def test_the_waiting_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SLOW_SECS", 4 * SLOW_SECS)  # long beside what a busy machine adds
    _, cluster, _ = trained(lead=1)
    waiting = cluster.read("ps_train/waiting")
    found = report(waiting, ["slow", "fast", "other"])
    assert found["per_worker"]["slow"] < 0.2
    assert found["per_worker"]["fast"] > 0.4 and found["per_worker"]["other"] > 0.4
    assert waiting[1, 0] < waiting[1, 1] < STEPS * 1.0, "seconds"


@pytest.mark.long
def test_a_replica_that_comes_back_begins_beside_the_slowest_not_beside_the_fastest() -> None:
    cluster = InProcessCluster(
        Recorded(), 1, WORKERS, update="bounded", max_steps_ahead=3, learning_rate=0.01, batch_size=4
    )
    cluster.start()

    def steps(index: int, count: int) -> None:
        for _ in range(count):
            cluster.sessions[index].run(cluster.steps[index].ops.train)

    cluster.dismiss(2)
    in_parallel([lambda: (steps(0, 2), steps(1, 5))])
    assert cluster.read("ps_train/clocks").tolist() == [[1, 1, 0], [2, 5, 0]]
    in_parallel([lambda: steps(2, 1)])
    assert cluster.read("ps_train/clocks").tolist() == [[1, 1, 1], [2, 5, 2]]


@pytest.mark.long
def test_a_replica_that_left_holds_no_other_back_and_one_that_comes_back_alone_begins_beside_the_fastest() -> None:
    model = Recorded()
    cluster = InProcessCluster(model, 1, WORKERS, update="bounded", max_steps_ahead=1, learning_rate=0.01, batch_size=4)
    cluster.start()

    def step(index: int) -> None:
        cluster.sessions[index].run(cluster.steps[index].ops.train)

    held = threading.Thread(target=lambda: [step(1) for _ in range(10)], daemon=True)
    held.start()
    eventually(lambda: cluster.read("ps_train/clocks")[1].tolist() == [0, 2, 0], 20, "worker 1 two steps on, waiting")
    cluster.dismiss(0)
    cluster.dismiss(2)
    held.join(20)
    assert not held.is_alive()
    assert cluster.read("ps_train/clocks")[1].tolist() == [0, 10, 0]
    step(2)
    assert cluster.read("ps_train/clocks").tolist() == [[0, 1, 1], [0, 10, 10]]
    assert np.isfinite(cluster.values()["w"]).all()
