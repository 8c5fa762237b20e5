"""The order in which a worker reads its examples: by the job's seed, the worker, and the step at which it begins."""

from __future__ import annotations

import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from ps_train.config.job import Job
from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import training_batches
from ps_train.training.worker_training import WorkerTraining
from ps_train.updates.base import Replica

COUNT = 40


def order(seed: int = 5, worker: int = 0, step: int = 0) -> tuple[int, ...]:
    """All examples in the order in which a worker reads them when it begins at that step."""
    numbers = np.arange(COUNT)
    with tf.Graph().as_default(), v1.Session() as session:
        batches = training_batches(Arrays(numbers, numbers), WHOLE, COUNT, epochs=1, shuffle_buffer=COUNT)
        cluster, console = types.SimpleNamespace(replicas=list), types.SimpleNamespace(line=print)
        context = types.SimpleNamespace(
            telemetry=types.SimpleNamespace(),
            job=Job(seed=seed),
            cluster=cluster,
            task="worker:0",
            directory="",
            console=console,
        )
        training = WorkerTraining(context)  # type: ignore[arg-type]
        training.replica, training.shard_client = Replica(worker, 2, 2), None
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
