"""A guard against losing speed: parcels and runs against the recipe that sends every variable alone, in one session.

Ratios of medians of interleaved rounds, with wide margins: what is measured for its own sake is in `benchmarks/`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.sessions.server import session_config
from ps_train.config.job import Task
from tests.cluster.engine.transport.test_dense import Deep
from tests.support.clusters.cluster import InProcessCluster
from tests.support.clusters.servers import POOL

ROUNDS, STEPS = 5, 32


def classic(cluster: InProcessCluster, target: str, model: Deep) -> Callable[[], None]:
    """One step of the usual recipe on the same servers, and on data of the same kind."""
    with tf.Graph().as_default() as graph:
        with v1.device(v1.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
            v1.train.get_or_create_global_step()
            with v1.variable_scope("classic", use_resource=True), tf.device("/job:worker/task:0/cpu:0"):
                data = model.data("train", "")
                dataset = tf.data.Dataset.from_tensor_slices((data.features, data.labels)).repeat().batch(4)
                features, labels = v1.data.make_one_shot_iterator(dataset).get_next()
            with v1.variable_scope("classic", use_resource=True):
                loss = model.loss(model.forward(features, training=True), labels)
            train = v1.train.GradientDescentOptimizer(1e-6).minimize(loss, v1.train.get_global_step())
        config = session_config(Cluster.of(cluster.job), Task("worker", 0), cluster.job)
        session = POOL.session(target, graph, config)
        session.run(v1.global_variables_initializer())
    return lambda: session.run(train)


@pytest.mark.long
def test_parcels_are_faster_than_variables_one_by_one_and_calls_of_several_steps_than_single_steps() -> None:
    model = Deep()
    cluster = InProcessCluster(
        model, 1, 1, optimizer="sgd", learning_rate=1e-6, batch_size=4, partition_bytes=1 << 30, steps_per_run="8"
    )
    cluster.start()
    usual = classic(cluster, cluster.sessions[0].sess_str, model)
    contenders: dict[str, Callable[[], object]] = {
        "classic": lambda: [usual() for _ in range(STEPS)],
        "parcels": lambda: cluster.train(STEPS),
        "runs": lambda: cluster.train(STEPS, run=8),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(1 + ROUNDS):
        for name, make_steps in contenders.items():
            start = time.monotonic()
            make_steps()
            times[name].append(time.monotonic() - start)
    median = {name: statistics.median(found[1:]) for name, found in times.items()}  # the first one prepares
    assert median["classic"] / median["parcels"] > 1.4, median
    assert median["parcels"] / median["runs"] > 1.1, median
