"""TensorFlow 2's ParameterServerStrategy with a ClusterCoordinator, which is the chief.

    python -m benchmarks.peers.pss --workload=small --job_name=chief --steps_per_closure=100 --ps_hosts=… …

Keras 3 does not support this strategy, so variables and rules are TensorFlow's own: raw variables, raw update kernels.
The chief's address is the last of `--worker_hosts`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from benchmarks.peers import inputs
from benchmarks.peers.speech import Marks, parse, say_test_loss
from benchmarks.workloads import load
from benchmarks.workloads.base import Workload

_BACKLOG_STEPS = 400
"""Closures for so many steps are always scheduled, so that no worker waits for the coordinator."""


def main() -> None:
    arguments = parse("tf.distribute.ParameterServerStrategy with ClusterCoordinator.")
    *worker_hosts, chief_host = arguments.worker_hosts.split(",")
    hosts = {"ps": arguments.ps_hosts.split(","), "worker": worker_hosts, "chief": [chief_host]}
    cluster = tf.train.ClusterSpec(hosts)
    if arguments.job_name == "chief":
        coordinate(arguments, load(arguments.workload), cluster)
        return
    config = v1.ConfigProto()
    config.inter_op_parallelism_threads = max(4, len(worker_hosts) + 1)  # fewer, and the workers' functions may hang
    tf.distribute.Server(cluster, arguments.job_name, arguments.task_index, protocol="grpc", config=config).join()


def coordinate(arguments: argparse.Namespace, workload: Workload, cluster: tf.train.ClusterSpec) -> None:
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster, task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = SharedModel(workload)

    def dataset() -> tf.data.Dataset:
        # Every worker sees itself as the only input pipeline: it shuffles all examples in an order of its own.
        return strategy.distribute_datasets_from_function(lambda context: inputs.training(workload, seed=None))

    iterator = iter(coordinator.create_per_worker_dataset(dataset))

    @tf.function  # type: ignore[untyped-decorator]
    def closure(batches: Any, steps: int) -> None:
        if steps == 1:
            strategy.run(model.step, next(batches))
            return
        for _ in tf.range(steps):
            strategy.run(model.step, next(batches))

    marks, scheduled, done = Marks(), 0, 0
    while done < arguments.max_steps:
        while scheduled < min(done + max(_BACKLOG_STEPS, 8 * arguments.steps_per_closure), arguments.max_steps):
            steps = min(arguments.steps_per_closure, arguments.max_steps - scheduled)
            coordinator.schedule(closure, args=(iterator, steps))
            scheduled += steps
        time.sleep(0.02)
        if marks.due() or done + _BACKLOG_STEPS // 2 < scheduled:
            done = int(model.global_step.numpy())
        if done:
            marks.at(done)
    coordinator.join()
    say_test_loss(model.test_loss())


class SharedModel:
    """A workload's variables and the slots of its rule, on the ps; to be made in the strategy's scope."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._variables = {name: tf.Variable(value, name=name) for name, value in initial_values(workload).items()}
        self.global_step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._apply = _RULES[workload.default_optimizer](list(self._variables.values()), workload.default_learning_rate)

    def step(self, features: tf.Tensor, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = self._loss(self._variables, features, labels)
        gradients = tape.gradient(loss, list(self._variables.values()))
        self._apply(gradients)
        self.global_step.assign_add(1, read_value=False)

    def test_loss(self) -> float:
        values = {name: variable.numpy() for name, variable in self._variables.items()}
        data = self._workload.data("test", "")
        with tf.Graph().as_default(), v1.Session() as session:
            known = {name: tf.constant(value) for name, value in values.items()}
            return float(session.run(self._loss(known, tf.constant(data.features), tf.constant(data.labels))))

    def _loss(self, values: dict[str, Any], features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        def known(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
            return values[name]

        with v1.variable_scope("", custom_getter=known):
            return self._workload.loss(self._workload.peers_forward(features, training=True), labels)


def initial_values(workload: Workload) -> dict[str, np.ndarray]:
    """Of all variables, by name."""
    features: Any = workload.data("test", "").features  # one array, not several by name
    with tf.Graph().as_default(), v1.Session() as session:
        workload.peers_forward(tf.constant(features[:1]), training=True)
        session.run(v1.global_variables_initializer())
        return {variable.op.name: session.run(variable) for variable in v1.trainable_variables()}


def _sgd(variables: list[tf.Variable], rate: float) -> Callable[[list[tf.Tensor]], None]:
    def apply(gradients: list[tf.Tensor]) -> None:
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(rate * gradient, read_value=False)

    return apply


def _adagrad(variables: list[tf.Variable], rate: float) -> Callable[[list[tf.Tensor]], None]:
    slots = [tf.Variable(tf.fill(variable.shape, 0.1), trainable=False) for variable in variables]

    def apply(gradients: list[Any]) -> None:
        for variable, slot, gradient in zip(variables, slots, gradients, strict=True):
            if not isinstance(gradient, tf.IndexedSlices):
                tf.raw_ops.ResourceApplyAdagrad(var=variable.handle, accum=slot.handle, lr=rate, grad=gradient)
                continue
            rows, index = tf.unique(gradient.indices)  # as TensorFlow's own optimizers do
            sums = tf.math.unsorted_segment_sum(gradient.values, index, tf.size(rows))
            tf.raw_ops.ResourceSparseApplyAdagrad(
                var=variable.handle, accum=slot.handle, lr=rate, grad=sums, indices=rows
            )

    return apply


def _momentum(variables: list[tf.Variable], rate: float) -> Callable[[list[tf.Tensor]], None]:
    slots = [tf.Variable(tf.zeros(variable.shape), trainable=False) for variable in variables]

    def apply(gradients: list[tf.Tensor]) -> None:
        for variable, slot, gradient in zip(variables, slots, gradients, strict=True):
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle, accum=slot.handle, lr=rate, grad=gradient, momentum=0.9
            )

    return apply


def _adam(variables: list[tf.Variable], rate: float) -> Callable[[list[tf.Tensor]], None]:
    first = [tf.Variable(tf.zeros(variable.shape), trainable=False) for variable in variables]
    second = [tf.Variable(tf.zeros(variable.shape), trainable=False) for variable in variables]
    powers = [tf.Variable(beta, trainable=False) for beta in (0.9, 0.999)]

    def apply(gradients: list[tf.Tensor]) -> None:
        beta1, beta2 = (power.read_value() for power in powers)
        for variable, m, v, gradient in zip(variables, first, second, gradients, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=m.handle,
                v=v.handle,
                beta1_power=beta1,
                beta2_power=beta2,
                lr=rate,
                beta1=0.9,
                beta2=0.999,
                epsilon=1e-8,
                grad=gradient,
            )
        powers[0].assign(beta1 * 0.9, read_value=False)
        powers[1].assign(beta2 * 0.999, read_value=False)

    return apply


_RULES = {"sgd": _sgd, "momentum": _momentum, "adagrad": _adagrad, "adam": _adam}


if __name__ == "__main__":
    main()
