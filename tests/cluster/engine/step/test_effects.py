"""What a model does on the worker keeps the order of the steps."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.clusters.cluster import InProcessCluster
from tests.support.models.small import Linear

RUN, STEPS = 8, 40


def cluster_of(model: Linear, **fields) -> InProcessCluster:
    cluster = InProcessCluster(model, 1, 1, **{"batch_size": 4, "steps_per_run": str(RUN), **fields})
    cluster.start()
    return cluster


class Noting(Linear):
    """Does things on the worker that depend on no value of a ps, and may take longer in earlier steps."""

    def __init__(self) -> None:
        super().__init__(count=400)
        self.order: list[tuple[str, float]] = []

    def forward(self, features, training):
        local = v1.get_variable(
            "seen", [], initializer=v1.zeros_initializer(), trainable=False, collections=[v1.GraphKeys.LOCAL_VARIABLES]
        )

        def note(number, value):
            self.order.append((str(number), float(value)))
            return value

        with tf.control_dependencies([local.assign_add(1.0)]):
            first = tf.numpy_function(note, ["first", local.read_value()], tf.float32)
        with tf.control_dependencies([first]):
            second = tf.numpy_function(note, ["second", local.read_value()], tf.float32)
        return super().forward(features, training) + 0.0 * tf.ensure_shape(second, [])


@pytest.mark.parametrize("fields", [{}, {"prefetch_pulls": 1}], ids=["", "prefetching"])
def test_what_a_model_does_on_the_worker_keeps_the_order_of_the_steps(fields: dict) -> None:
    model = Noting()
    cluster = cluster_of(model, **fields)
    (seen,) = [v for v in cluster.steps[0].graph.get_collection("local_variables") if v.op.name.endswith("seen")]
    cluster.sessions[0].run(seen.initializer)
    model.order.clear()
    cluster.train(STEPS, run=RUN)
    values = [value for _, value in model.order]
    assert values == [number for step in range(1, STEPS + 1) for number in (step, step)]
