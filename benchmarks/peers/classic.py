"""The classic recipe: `replica_device_setter`, `minimize`, `MonitoredTrainingSession`; with `--sync`, SyncReplicas.

    python -m benchmarks.peers.classic --workload=small --job_name=worker --task_index=0 --ps_hosts=… --worker_hosts=…

Written with good practice: resource variables, tf.data input, device filters (nobody waits for other workers), no wait
of 30 s for the chief, no checkpoints or summaries, and one hook, the one that stops.
"""

from __future__ import annotations

import argparse
import time

import tensorflow.compat.v1 as v1

from benchmarks.peers import inputs
from benchmarks.peers.crossings import say_rpcs
from benchmarks.peers.rules import optimizer_of
from benchmarks.peers.speech import Marks, parse, say_test_loss
from benchmarks.workloads import load
from benchmarks.workloads.base import Workload


def main() -> None:
    arguments = parse("The classic recipe of graph-mode parameter-server training.")
    v1.disable_eager_execution()
    v1.enable_resource_variables()
    ps_hosts, worker_hosts = arguments.ps_hosts.split(","), arguments.worker_hosts.split(",")
    cluster = v1.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    own = f"/job:{arguments.job_name}/task:{arguments.task_index}"
    config = v1.ConfigProto(device_filters=["/job:ps", own])
    server = v1.train.Server(cluster, arguments.job_name, arguments.task_index, config=config)
    if arguments.job_name == "ps":
        server.join()
    train(arguments, load(arguments.workload), server.target, config, cluster, len(worker_hosts))


def train(
    arguments: argparse.Namespace,
    workload: Workload,
    target: str,
    config: v1.ConfigProto,
    cluster: v1.train.ClusterSpec,
    workers: int,
) -> None:
    index = arguments.task_index
    with v1.device(device_setter(index, cluster)):
        operations, hooks, test_loss = build(workload, index, workers, arguments.sync)
    # Under SyncReplicas the chief must be the first to stop: alone it would wait for ever.
    margin = 100 if arguments.sync and index else 0
    hooks.append(v1.train.StopAtStepHook(last_step=arguments.max_steps + margin))
    marks, step = Marks(), 0
    creator_of = _WorkerCreator if index else v1.train.ChiefSessionCreator
    creator = creator_of(v1.train.Scaffold(), target, config)
    # At the end SyncReplicas' own thread waits for gradients that nobody sends any more: no need to wait for it.
    with v1.train.MonitoredSession(creator, hooks, stop_grace_period_secs=1) as session:
        if arguments.count_rpcs and index == 0:
            say_rpcs(session, operations[0])
        while not session.should_stop():
            _, step = session.run(operations)
            marks.at(step)
        raw = v1.Session(target, config=config)  # the hooks of the other one would refuse to run any more
    if index == 0:
        wait_until(raw, operations[1], arguments.max_steps)
        say_test_loss(raw.run(test_loss))


def device_setter(index: int, cluster: v1.train.ClusterSpec) -> object:
    return v1.train.replica_device_setter(worker_device=f"/job:worker/task:{index}", cluster=cluster)


def build(workload: Workload, index: int, workers: int, sync: bool) -> tuple[list[object], list[object], object]:
    """The step (train operation, global step), its hooks, and the loss on the test split."""
    global_step = v1.train.get_or_create_global_step()
    iterator = v1.data.make_initializable_iterator(inputs.training(workload, index, workers))
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)  # so every session opens its input
    features, labels = iterator.get_next()
    with v1.variable_scope("model"):
        loss = workload.loss(workload.peers_forward(features, training=True), labels)
    optimizer = optimizer_of(workload)
    hooks = []
    if sync:
        optimizer = v1.train.SyncReplicasOptimizer(optimizer, workers, workers)
        hooks.append(optimizer.make_session_run_hook(index == 0))
    train_op = optimizer.minimize(loss, global_step=global_step)
    test = workload.data("test", "")
    with v1.variable_scope("model", reuse=True):
        test_loss = workload.loss(
            workload.peers_forward(v1.convert_to_tensor(test.features), training=False), test.labels
        )
    return [train_op, global_step], hooks, test_loss


class _WorkerCreator(v1.train.SessionCreator):
    """What MonitoredTrainingSession makes for a worker, but one that looks for the chief's variables more often."""

    def __init__(self, scaffold: v1.train.Scaffold, target: str, config: v1.ConfigProto) -> None:
        self._scaffold, self._target, self._config = scaffold, target, config

    def create_session(self) -> v1.Session:
        self._scaffold.finalize()
        manager = v1.train.SessionManager(
            local_init_op=self._scaffold.local_init_op,
            ready_op=self._scaffold.ready_op,
            ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
            graph=v1.get_default_graph(),
            recovery_wait_secs=0.2,
        )
        return manager.wait_for_session(self._target, config=self._config, max_wait_secs=120)


def wait_until(session: v1.Session, global_step: object, max_steps: int) -> None:
    """The other workers' last steps may still be on their way."""
    deadline = time.monotonic() + 30
    while session.run(global_step) < max_steps and time.monotonic() < deadline:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
