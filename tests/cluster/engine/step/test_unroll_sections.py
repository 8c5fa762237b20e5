"""Calls of sections: a pull, some steps on the worker alone, and a push, one after the other."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.sessions.server import device_of, session_config
from ps_train.config.job import Job, Task
from ps_train.engine.step.unroll import NOTHING, Placed, Section, UnrolledCalls, UnrolledStep
from ps_train.engine.variables.mutex import mutex_of, with_mutex
from ps_train.engine.variables.variables import ps_device, zeros_variable
from ps_train.engine.variables.worker_state import collect_local_state, local_variable
from tests.support.clusters.servers import POOL

INNER, ROUNDS = 3, 2


class Rounds(UnrolledCalls):
    """Calls of rounds, in which the steps are those on the worker."""

    def __init__(self, pull: list[Any], inner: list[Any], push: list[Any]) -> None:
        super().__init__(UnrolledStep(inner[:-1], inner[-1].outputs[0]), num_ps=1)
        self._sections = [Section(pull, 1), *[Section(inner, 1)] * INNER, Section(push, 1)]

    def next_section(self, number: int) -> Placed:
        section = self._sections[number % len(self._sections)]
        return section.copy(f"part_{number}", number + 1, self.placed[-1] if number else NOTHING)


def test_a_round_pulls_once_steps_on_the_worker_and_pushes_once_after_the_round_before() -> None:
    servers = POOL.take(2)
    job = Job(ps_hosts=(servers[0].host,), worker_hosts=(servers[1].host,))
    cluster, task = Cluster.of(job), Task("worker", 0)
    with tf.Graph().as_default() as graph:
        with tf.device(ps_device(0)):
            value, order = zeros_variable("value", tf.float32), zeros_variable("order", tf.float32, [ROUNDS])
            count = zeros_variable("count", tf.int64)
        with tf.device(device_of(task, cluster)):
            start, now = local_variable("start", []), local_variable("now", [])
            with tf.device(ps_device(0)):
                read = value.read_value()
            pull = [start.assign(read, read_value=False), now.assign(read, read_value=False)]
            stepped = now.assign(2 * now.read_value() + 1, read_value=False)  # the order and the number of steps show
            inner = [stepped, tf.identity(4.0).op]
            moved = now.read_value() - start.read_value()

            def body() -> tuple[list[tf.Operation], None]:
                added = value.assign_add(here, read_value=False)
                noted = order.scatter_nd_update([[count.read_value()]], [here]).op
                with tf.control_dependencies([noted]):
                    return [added, count.assign_add(1, read_value=False)], None

            with tf.device(ps_device(0)):
                here = tf.identity(moved)
                push = [with_mutex(mutex_of(0), [here], body)[0]]
        calls = Rounds(pull, inner, push)
        calls.place(ROUNDS * (INNER + 2))
        initializers = [v1.global_variables_initializer(), collect_local_state().initializers]
        session = POOL.session(servers[1].target, graph, session_config(cluster, task, job))
        session.run(initializers)
        session.run([op for placed in calls.placed for op in placed.ops])
        # Three steps of x -> 2x + 1: 0 -> 7, then 7 -> 63.
        assert session.run([value, count]) == [63.0, ROUNDS]
        assert session.run(order).tolist() == [7.0, 56.0]
