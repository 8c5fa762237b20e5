"""What a worker does besides its steps.

The order in which it reads its examples follows from the job's seed, the worker, and the step at which it begins.
"""

from __future__ import annotations

import sys
import threading
import time
import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from ps_train.base.console import Console
from ps_train.cluster.membership.records import TaskState
from ps_train.cluster.sessions.calls import SessionGroup
from ps_train.config.job import Job
from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import training_batches
from ps_train.engine.updates.modes.base import Replica
from ps_train.training.tasks.worker_training import WorkerTraining

COUNT = 40


def training_of(job: Job, worker: int = 0, **fields: object) -> WorkerTraining:
    """A training that knows no more of its task and job than these tests need."""
    cluster = types.SimpleNamespace(replicas=list)
    replica = Replica(worker, 2, 2)
    prepared: Any = types.SimpleNamespace(job=job, cluster=cluster, task="worker:0", replica=replica)
    joined: Any = types.SimpleNamespace(telemetry=types.SimpleNamespace(), directory="", **fields)
    return WorkerTraining(prepared, joined, Console(sys.stdout))


def order(seed: int = 5, worker: int = 0, step: int = 0) -> tuple[int, ...]:
    """All examples in the order in which a worker reads them when it begins at that step."""
    numbers = np.arange(COUNT)
    with tf.Graph().as_default(), v1.Session() as session:
        batches = training_batches(Arrays(numbers, numbers), WHOLE, COUNT, epochs=1, shuffle_buffer=COUNT)
        training = training_of(Job(seed=seed), worker)
        training.shard_client = None
        training._input = types.SimpleNamespace(  # type: ignore[assignment]
            begin=lambda seed: session.run(batches.initializer, batches.feeds(seed))
        )
        training.open_input(step)
        read = tuple(session.run(batches.labels).tolist())
        training.open_input(step + 1)
        with pytest.raises(tf.errors.OutOfRangeError):  # a second session goes on where the first was
            session.run(batches.labels)
    assert sorted(read) == list(range(COUNT))
    return read


def test_the_order_is_another_one_after_a_resume_on_another_worker_and_with_another_seed() -> None:
    orders = [order(), order(step=100), order(step=101), order(worker=1), order(worker=1, step=100), order(seed=6)]
    assert len(set(orders)) == len(orders)


def test_the_order_is_the_same_whenever_the_same_worker_begins_at_the_same_step() -> None:
    assert order(worker=1, step=100) == order(worker=1, step=100)


def test_a_worker_that_loses_ps_0_again_while_it_waits_for_the_ps_waits_on() -> None:
    told: list[TaskState] = []

    def tell_state(state: TaskState) -> bool:
        told.append(state)
        return len(told) != 2  # all ps had answered

    liveness = types.SimpleNamespace(all_answered_since=lambda since: since <= time.monotonic())
    heartbeat = types.SimpleNamespace(tell_state=tell_state, probe_ps=lambda: None, ps_liveness=liveness)
    events = types.SimpleNamespace(stop=threading.Event())
    training = training_of(Job(), heartbeat=heartbeat, events=events)
    training.sessions = types.SimpleNamespace(group=SessionGroup())  # type: ignore[assignment]
    training.shard_client = None
    training._wait_for_ps("ps:0 was lost")
    assert told == [TaskState.RECOVERING] * 3
