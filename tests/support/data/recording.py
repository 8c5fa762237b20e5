"""A model whose values say which examples were used, how often; and workers that are handed shards of its data."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model, embeddings
from ps_train.data.stream import RandomAccessChunks, Stream
from ps_train.engine.step.parts.sharding import Sharding
from ps_train.engine.step.train_step import TrainStep
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.updates.shards.shard_ownership import OwnershipTable
from ps_train.training.loop.burst_size import BurstScheduler
from ps_train.training.loop.event_gate import event_gates
from ps_train.training.loop.loop import TrainingLoop
from ps_train.training.loop.partition_client import PartitionClient
from ps_train.training.loop.shard_client import OwnershipClient, ShardClient
from ps_train.training.loop.step_sources import StepSource
from tests.support.clusters.cluster import InProcessCluster


class Recording(Model):
    """Every use of an example adds one to its element of two variables, which live on different ps if there are two.

    That is what plain SGD makes of it; under `sync`, where gradients are averaged, `Ones` does.
    """

    default_learning_rate = 1.0

    def __init__(self, count: int = 1000, ones: bool = False, secs: float = 0.0, stream: bool = False) -> None:
        self.count, self.ones, self.secs, self.stream = count, ones, secs, stream

    def data(self, split, data_dir):
        if split == "test":
            return None
        if self.stream:
            return Numbers(self.count)
        return Arrays(np.arange(self.count), np.zeros(self.count, np.float32))

    def forward(self, features, training):
        uses = tf.reduce_sum(tf.one_hot(features, self.count), 0)
        if self.secs:
            uses = tf.ensure_shape(tf.numpy_function(self._later, [uses], uses.dtype), uses.shape)
        if self.ones:  # the mean over the examples of a round gives each of them the same weight
            uses /= tf.maximum(tf.cast(tf.size(features), tf.float32), 1)
        first, second = (v1.get_variable(n, [self.count], initializer=v1.zeros_initializer()) for n in NAMES)
        return -tf.reduce_sum(tf.stop_gradient(uses) * (first + second))

    def _later(self, values):
        time.sleep(self.secs)
        return values

    def loss(self, outputs, labels):
        return outputs

    def optimizer(self, name, learning_rate):
        return Ones() if self.ones else super().optimizer(name, learning_rate)


class RecordingTables(Recording):
    """The same with rows of two tables, which all ps share."""

    def forward(self, features, training):
        found = [embeddings.lookup(name, features, rows=self.count, dimension=1, initializer=0.0) for name in NAMES]
        weights = tf.ones_like(found[0])
        if self.secs:
            weights = tf.ensure_shape(tf.numpy_function(self._later, [weights], weights.dtype), weights.shape)
        return -tf.reduce_sum(tf.stop_gradient(weights) * tf.add_n(found))


NAMES = ("first", "second")


class Numbers(Stream):
    """The same data in pieces of 0 to 99 numbers."""

    def __init__(self, count: int) -> None:
        self.count = count

    def chunks(self, share, seed):
        return tf.data.Dataset.range(share.index, self.count, share.count).batch(10).map(_examples)

    def pieces(self):
        ends = np.minimum(np.cumsum(np.arange(self.count) * 37 % 100), self.count)
        starts = np.array([0, *ends[: int(np.argmax(ends == self.count)) + 1]])

        def read(piece):
            found = tf.constant(starts, tf.int64)
            return _examples(tf.range(found[piece], found[piece + 1]))

        return RandomAccessChunks(len(starts) - 1, f"numbers_{self.count}", read)


def _examples(numbers):
    return numbers, tf.zeros_like(numbers, tf.float32)


class Ones(v1.train.GradientDescentOptimizer):
    """Adds the number of uses in a round, of which the gradient is the mean: 1, or 2 where two epochs meet.

    Whatever the number of examples is, the smallest gradient but 0 is that of an element that was used once.
    """

    def __init__(self) -> None:
        super().__init__(1.0)

    def _resource_apply_dense(self, grad, handle):
        return super()._resource_apply_dense(_uses(grad), handle)

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices):
        return super()._resource_apply_sparse_duplicate_indices(_uses(grad), handle, indices)


def _uses(grad: tf.Tensor) -> tf.Tensor:
    sizes = tf.abs(grad)
    return tf.round(grad / tf.reduce_min(tf.where(sizes > 0, sizes, np.inf)))


def used(cluster: InProcessCluster) -> list[np.ndarray]:
    """How often each example was used, by each of the variables."""
    values = cluster.values()
    return [values[name] for name in NAMES]


class Endless:
    """As many steps as anybody wants."""

    def take(self, wanted: int, global_step: int) -> int:
        return wanted

    def give_back(self, count: int) -> None:
        pass

    def settle(self) -> None:
        pass


def ownership_of(step: TrainStep) -> OwnershipTable:
    """The owners of the shards in a graph that is built with dynamic sharding."""
    (sharding,) = step.parts.of(Sharding)
    return sharding.ownership


class SharingWorker:
    """One worker of a cluster in one process: its loop, and what it was given.

    Args:
      pause: called after each step.

    Attributes:
      idle: whether there is nothing to take, for now at least.
    """

    def __init__(
        self,
        cluster: InProcessCluster,
        index: int,
        pace: StepSource | None = None,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self.cluster, self.index, self.pace, self._pause = cluster, index, pace or Endless(), pause
        self.idle = False
        self.step, self.session, self.made = cluster.steps[index], cluster.sessions[index], 0
        replica = cluster.replicas[index]
        restart = self.step.worker.batches.initializer
        self.shares = self._client_of(replica, lambda: self.session.run(restart))
        rhythm = BurstScheduler.of(cluster.job)
        self._loop = TrainingLoop(f"worker:{index}", self.step, self.shares, self._stops, 0, bursts=rhythm)
        self._should_stop: Callable[[], bool] = lambda: False

    def _client_of(self, replica: Replica, restart: Callable[[], object]) -> OwnershipClient:
        job, (sharding,) = self.cluster.job, self.step.parts.of(Sharding)
        if sharding.assigned.reader.is_endless:
            self.gates = event_gates(self.step, job)
            return PartitionClient(self.step, replica, job, restart, *self.gates)
        return ShardClient(self.step, replica, job, len(self.cluster.steps), restart)

    def begin(self) -> None:
        self.shares.begin(self.session, self.pace)

    def make(self, steps: int) -> int:
        """Up to so many steps one by one, fewer where nothing is left to take."""
        for number in range(steps):
            if not self.shares.take(1, 0):
                return number
            self._run_with_hooks({"train": self.step.ops.train})
        return steps

    def run(self, should_stop: Callable[[], bool] = lambda: False, within_secs: float = 60.0) -> None:
        """As a worker does it: until all epochs are over, or the steps used up."""
        deadline = time.monotonic() + within_secs
        self._should_stop = should_stop
        while not should_stop():
            assert time.monotonic() < deadline, "the epochs do not end"
            self.begin()
            self._loop.run(self)
            self.cluster.dismiss(self.index, by=self.index)
            while self._finds_nothing():
                if self.shares.is_over() or should_stop() or self._is_done():
                    return
                assert time.monotonic() < deadline, "the epochs do not end"
                time.sleep(0.01)

    def _finds_nothing(self) -> bool:
        self.idle = not self.shares.has_work()
        return self.idle

    def run_step_fn(self, step_fn):
        """What the loop needs of a MonitoredSession: here, with the hook that tells of tickets."""
        return step_fn(_Context(self.session, self._run_with_hooks))

    def _run_with_hooks(self, fetches):
        fetched, ticket = self.session.run([fetches, self.step.worker.batches.progress])
        self.shares.step_done(ticket)
        self.made += 1
        self._pause()
        return fetched

    def _stops(self) -> bool:
        return self._should_stop()

    def _is_done(self) -> bool:
        return self.cluster.global_step() >= self.cluster.job.max_steps


class _Context:
    def __init__(self, session, run_with_hooks) -> None:
        self.session, self.run_with_hooks = session, run_with_hooks
