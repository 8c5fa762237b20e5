"""A batch size that follows the network: its variable on ps 0, and its way to the workers.

The chief chooses the size (`adaptation.py`) and writes it to ps 0, together with the global step from which it
holds.  Each step reads it there in its pull.  In a synchronous round all workers pull at the same global step, so they
have the same size.  The worker leaves the size in a variable of its own, where its input reads it
(`dynamic_batches.py`).

    size = batch_size_of(job, ahead=True)
    batches = training_batches(data, shard, size.of_input, ...)
    read = size.follow(step, batches)           # tensors that the step pulls

A fixed size is a `BatchSize` that follows nothing.  So the parts of a step do not ask which of the two they have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import add_control_inputs
from ps_train.config.batch_sizes import BatchSizes
from ps_train.config.job import Job
from ps_train.config.validators import parse_limits
from ps_train.data.dynamic_batches import DynamicBatches
from ps_train.data.pipeline import Batches
from ps_train.engine.updates.following.adaptation import SYNC_SHARE
from ps_train.engine.updates.following.adaptation_policy import Ladder, synchronisation
from ps_train.engine.updates.following.adapted_value import AdaptedValue
from ps_train.engine.variables.mutex import mutex_of, with_mutex
from ps_train.engine.variables.variables import INPUT_STATE, ps_device, zeros_variable
from ps_train.engine.variables.worker_state import local_variable


class BatchSizeSchedule(AdaptedValue):
    """The size of the batches of each step, in a variable on ps 0: a size, a global step, and the size from it on.

    Args:
      sizes: the bounds of the job.
      limit: largest share of a step that synchronisation may take.

    Attributes:
      variable: int64 [3]; zeros stand for the lower bound.
    """

    def __init__(self, sizes: BatchSizes, limit: float = SYNC_SHARE) -> None:
        super().__init__("batch_size", Ladder(sizes.sizes, synchronisation(limit)))
        self._sizes = sizes.sizes
        with tf.device(ps_device(0)):
            self.variable = zeros_variable("ps_train/batch_size", tf.int64, [3])

    def at(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the size at a global step (int64 scalar on ps 0); it is read after the step."""
        with tf.device(ps_device(0)), tf.control_dependencies([step]):
            before, since, newest = tf.unstack(self.variable.read_value())
            return self._possible(tf.where(step >= since, newest, before))

    def newest(self) -> tf.Tensor:
        """Returns the size that was chosen last, int64 scalar."""
        with tf.device(ps_device(0)):
            return self._possible(self.variable.read_value()[2])

    def change(self, global_step: Any) -> tuple[tf.Tensor, tf.Operation]:
        """Returns a placeholder of a size, and the operation that makes it the size from the next global step on.

        The global step does not change meanwhile, because updates are made under the same mutex.

        Args:
          global_step: the variable.
        """
        wanted = v1.placeholder(tf.int64, [], "batch_size")

        def body() -> tuple[list[tf.Operation], None]:
            step = global_step.read_value()
            value = tf.stack([self.at(step), step + 1, wanted])
            return [self.variable.assign(value, read_value=False)], None

        with tf.device(ps_device(0)):
            return wanted, with_mutex(mutex_of(0), [tf.identity(wanted)], body)[0]

    def _possible(self, size: tf.Tensor) -> tf.Tensor:
        """Returns the largest possible size up to `size`, since a checkpoint may be of a job with other bounds."""
        index = tf.searchsorted(tf.constant(self._sizes, tf.int64), tf.reshape(size, [1]), side="right")[0] - 1
        return tf.gather(tf.constant(self._sizes, tf.int64), tf.maximum(index, 0))


class WorkerBatchSize:
    """The size of the next batch, in a variable of the worker; make it before the batches.

    Args:
      sizes: the bounds of the job.
      ahead: see `DynamicBatches`.

    Attributes:
      batches: tf.data's part.
    """

    def __init__(self, sizes: BatchSizes, ahead: bool) -> None:
        with tf.device("/device:CPU:0"):
            self._variable = local_variable(f"{INPUT_STATE}/batch_size", [], tf.int64, sizes.lower)
        self.batches = DynamicBatches(sizes.lower, sizes.upper, self._variable.read_value, ahead)

    def follow(self, size: tf.Tensor) -> tf.Operation:
        """Returns the operation that makes a pulled size that of the next batch."""
        with tf.device("/device:CPU:0"), tf.name_scope(f"{INPUT_STATE}/"):
            return self._variable.assign(size, read_value=False)


class BatchSize:
    """The size of a worker's batches in the graph of its step: fixed, as --batch_size gives it.

    Attributes:
      of_input: what the input makes batches of.
      saved: variables on ps 0 that belong into a checkpoint.
      schedule: the sizes, on ps 0; None where the size is fixed.
    """

    schedule: BatchSizeSchedule | None = None

    def __init__(self, job: Job) -> None:
        self.of_input: int | DynamicBatches = job.min_batch_size
        self.saved: list[Any] = []

    def follow(self, step: tf.Tensor, batches: Batches) -> list[tf.Tensor]:
        """Makes the batch of a step (int64 scalar on ps 0) have its size; returns what is read on ps 0 for it."""
        return []


class FollowingBatchSize(BatchSize):
    """A size that follows the network.

    Args:
      ahead: see `DynamicBatches`.
    """

    schedule: BatchSizeSchedule

    def __init__(self, job: Job, ahead: bool) -> None:
        super().__init__(job)
        limit = parse_limits(job.health_limits).get("sync_share", SYNC_SHARE)
        self.schedule = BatchSizeSchedule(job.batch_sizes, limit)
        self._worker = WorkerBatchSize(job.batch_sizes, ahead)
        self.of_input, self.saved = self._worker.batches, [self.schedule.variable]

    def follow(self, step: tf.Tensor, batches: Batches) -> list[tf.Tensor]:
        """Makes the batch have the size that ps 0 holds for the step; returns that size."""
        found = self.schedule.at(step)
        add_control_inputs(batches.get_next_op, [self._worker.follow(found)])
        return [found]


def batch_size_of(job: Job, ahead: bool) -> BatchSize:
    """Returns the size of a worker's batches; make it before them, in the worker's device scope.

    Args:
      job: its `batch_size` is a number or a range.
      ahead: see `DynamicBatches`.
    """
    return FollowingBatchSize(job, ahead) if job.batch_sizes.is_range else BatchSize(job)


def learning_rate_divisor(job: Job, replicas: int) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """Returns the function of an update's examples that gives the divisor of its learning rate, at most 1.

    linear: Goyal et al. 2017, "Accurate, Large Minibatch SGD".  sqrt: Krizhevsky 2014, "One weird trick for
    parallelizing convolutional neural networks".

    Args:
      job: has `scale_learning_rate`, the update mode and the batch size.
      replicas: number of replicas at the start.

    Returns:
      None where the learning rate stays as it is.
    """
    if job.scale_learning_rate == "none":
        return None
    pushes = max(1, replicas - job.backup_limits(replicas).lower) if job.update == "sync" else 1
    usual = float(job.min_batch_size * job.accumulate * pushes)

    def divisor(examples: tf.Tensor) -> tf.Tensor:
        ratio = usual / tf.maximum(examples, usual)
        return ratio if job.scale_learning_rate == "linear" else tf.sqrt(ratio)

    return divisor
