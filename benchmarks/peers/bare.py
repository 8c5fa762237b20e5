"""Our own graph without our loop: `session.run` of the same step, nothing else.  What our loop adds is the difference.

    python -m benchmarks.peers.bare --workload=small --job_name=worker --task_index=1 --ps_hosts=… --worker_hosts=…

Always asynchronous.
"""

from __future__ import annotations

import argparse
import time

import tensorflow.compat.v1 as v1

from benchmarks.peers.crossings import say_rpcs
from benchmarks.peers.speech import Marks, parse
from benchmarks.workloads import load
from ps_train.base import gc_control
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.sessions.server import device_of, session_config, start_server
from ps_train.config.job import Job, Task
from ps_train.data.pipeline import DataSource
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.train_step import TrainStep, build_train_step
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.variables.plan import make_plan
from ps_train.engine.variables.trace import trace


def main() -> None:
    arguments = parse("ps_train's step in a bare loop.")
    job, task = job_of(arguments), Task(arguments.job_name, arguments.task_index)
    cluster = Cluster.of(job)
    server = start_server(cluster.address(task), job)
    while task.job_name == "ps":
        time.sleep(1)
    step = build(arguments.workload, job, task, cluster)
    with v1.Session(server.target, graph=step.graph, config=session_config(cluster, task, job)) as session:
        if task.task_index == 0:
            session.run(step.ps.initialize)
        while session.run(step.ps.uninitialized).any():
            time.sleep(0.05)
        session.run(step.worker.batches.initializer, step.worker.batches.feeds(seed=task.task_index or 0))
        gc_control.resume()
        if arguments.count_rpcs and task.task_index == 0:
            say_rpcs(session, step.ops.train)
        run(session, step, says=task.task_index == 0)


def job_of(arguments: argparse.Namespace) -> Job:
    return Job(
        ps_hosts=tuple(arguments.ps_hosts.split(",")),
        worker_hosts=tuple(arguments.worker_hosts.split(",")),
        batch_size=load(arguments.workload).batch_size,
    )


def build(workload_name: str, job: Job, task: Task, cluster: Cluster) -> TrainStep:
    workload = load(workload_name)
    source = DataSource(lambda: workload.data("train", ""))
    traced = trace(workload, source, job.min_batch_size)
    plan = make_plan(traced.specs(), len(job.ps_hosts))
    replica = Replica.of(cluster, task)
    return build_train_step(GraphSpec(job, workload, source, traced, plan, replica, device_of(task)))


def run(session: v1.Session, step: TrainStep, says: bool) -> None:
    marks, operations = Marks(), step.ops.train
    session.run(operations)
    while True:
        if says and marks.due():
            marks.at(int(session.run(step.ps.global_step)))
        session.run(operations)


if __name__ == "__main__":
    main()
