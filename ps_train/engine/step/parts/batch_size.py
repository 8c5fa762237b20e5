"""A batch size that follows the network, and a learning rate that follows the batch size."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ps_train.config.job import Job
from ps_train.config.validators import SYNC_SHARE, parse_limits
from ps_train.data.dynamic_batches import DynamicBatches
from ps_train.data.pipeline import Batches
from ps_train.engine.step.parts.step_part import MakeBatches, MakeUpdate, Pull, Pulled, StepPart, ToUpdate, Updated
from ps_train.engine.updates.following.batch_size_control import BatchSizeSchedule, WorkerBatchSize
from ps_train.engine.variables.variables import CheckpointEntry


class FollowingBatchSize(StepPart):
    """The part of a step whose batches have the size that ps 0 holds for it.

    Args:
      job: `batch_size` is a range.
      ahead: see `DynamicBatches`.

    Attributes:
      schedule: after `batches`, the sizes on ps 0.
    """

    schedule: BatchSizeSchedule

    def __init__(self, job: Job, ahead: bool) -> None:
        self._sizes, self._ahead = job.batch_sizes, ahead
        self._limit = parse_limits(job.health_limits).get("sync_share", SYNC_SHARE)

    def batches(self, batches: MakeBatches) -> MakeBatches:
        """Makes batches of the size that the worker has pulled last."""
        self.schedule = BatchSizeSchedule(self._sizes, self._limit)
        self._worker = WorkerBatchSize(self._sizes, self._ahead)
        self.adapted = [self.schedule]

        def made(data: Any, size: int | DynamicBatches) -> Batches:
            return batches(data, self._worker.batches)

        return made

    def pull(self, pull: Pull) -> Pull:
        """Pulls the size at the global step of the values."""

        def pulled(received: Callable[[tf.Tensor], tf.Tensor]) -> Pulled:
            found = pull(received)
            size = self.schedule.at(found.step)
            before_batch = [*found.before_batch, self._worker.follow(size)]
            return dataclasses.replace(found, read=[*found.read, size], before_batch=before_batch)

        return pulled

    def entries(self) -> list[CheckpointEntry]:
        """Returns the entry of the sizes."""
        variable = self.schedule.variable
        return [CheckpointEntry(variable.op.name, "", variable, optional=True)]


class ScaledRate(StepPart):
    """The part of a step whose learning rate follows the number of examples (--scale_learning_rate).

    linear: Goyal et al. 2017, "Accurate, Large Minibatch SGD".  sqrt: Krizhevsky 2014, "One weird trick for
    parallelizing convolutional neural networks".

    Args:
      job: has `scale_learning_rate`, the update mode and the batch size.
      replicas: number of replicas at the start.
    """

    def __init__(self, job: Job, replicas: int) -> None:
        pushes = max(1, replicas - job.backup_limits(replicas).lower) if job.update == "sync" else 1
        self._usual = float(job.min_batch_size * job.accumulate * pushes)
        self._is_linear = job.scale_learning_rate == "linear"

    def update(self, update: MakeUpdate) -> MakeUpdate:
        """Divides the learning rate of an update of more examples than usual."""

        def updated(given: ToUpdate) -> Updated:
            return update(dataclasses.replace(given, rate_divisors=[*given.rate_divisors, self.divisor]))

        return updated

    def divisor(self, examples: tf.Tensor) -> tf.Tensor:
        """Returns the divisor of the learning rate of an update of so many examples, at most 1."""
        ratio = self._usual / tf.maximum(examples, self._usual)
        return ratio if self._is_linear else tf.sqrt(ratio)
