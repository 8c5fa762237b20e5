"""The parts of a step whose values follow measurements: batch size, wait limit, push codec.

`engine/updates/following` has the values themselves, and the chief's choice of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ps_train.base.bounds import Bounds
from ps_train.base.gauge import Gauge
from ps_train.config.job import Job
from ps_train.config.validators import SYNC_SHARE, parse_limits
from ps_train.data.batching import ONE_SIZE, Batching
from ps_train.data.pipeline import Batches
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.parts.push_codec import PushCodec
from ps_train.engine.step.parts.step_part import MakeBatches, MakeUpdate, Pull, Pulled, StepPart, ToUpdate, Updated
from ps_train.engine.transport.codecs.chosen import Chosen
from ps_train.engine.transport.coding import codec_of
from ps_train.engine.updates.following.adaptation import ADAPTED
from ps_train.engine.updates.following.adaptation_policy import BYTES, STRAGGLERS, Ladder
from ps_train.engine.updates.following.adapted_value import AdaptedValue
from ps_train.engine.updates.following.batch_size_control import ScheduledValue, WorkerBatchSize
from ps_train.engine.updates.modes.base import UpdateMode, WaitLimit
from ps_train.engine.variables.variables import CheckpointEntry


class FollowingPart(StepPart):
    """A part with a value that follows measurements.

    Attributes:
      adapted: the value, once it is in the graph.
    """

    adapted: AdaptedValue

    def gauges(self) -> Mapping[Gauge, tf.Tensor]:
        """Returns the value."""
        return {ADAPTED[self.adapted.name]: self.adapted.newest()}


class FollowingBatchSize(FollowingPart):
    """The part of a step whose batches have the size that ps 0 holds for it.

    Args:
      job: `batch_size` is a range.
      ahead: see `DynamicBatches`.
    """

    adapted: ScheduledValue

    def __init__(self, job: Job, ahead: int) -> None:
        self._sizes, self._ahead = job.batch_sizes, ahead
        self._limit = sync_limit(job)

    def batches(self, batches: MakeBatches) -> MakeBatches:
        """Makes batches of the size that the worker has pulled last."""
        self.adapted = ScheduledValue("batch_size", self._sizes, self._limit)
        self._worker = WorkerBatchSize(self._sizes, self._ahead)

        def made(data: Any, batching: Batching) -> Batches:
            return batches(data, self._worker.batches)

        return made

    def pull(self, pull: Pull) -> Pull:
        """Pulls the size at the global step of the values."""

        def pulled(received: Callable[[tf.Tensor], tf.Tensor]) -> Pulled:
            found = pull(received)
            size = self.adapted.at(found.step)
            before_batch = [*found.before_batch, self._worker.follow(size)]
            return dataclasses.replace(found, read=[*found.read, size], before_batch=before_batch)

        return pulled

    def entries(self) -> list[CheckpointEntry]:
        """Returns the entry of the sizes."""
        variable = self.adapted.variable
        return [CheckpointEntry(variable.op.name, "", variable, optional=True)]


def sync_limit(job: Job) -> float:
    """Returns the largest share of a step that synchronisation may take."""
    return parse_limits(job.health_limits).get("sync_share", SYNC_SHARE)


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
            return update(given.with_rate_divisor(self.divisor))

        return updated

    def divisor(self, examples: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        """Returns the divisor of the learning rate of an update of so many examples, at most 1."""
        ratio = self._usual / tf.maximum(examples, self._usual)
        return ratio if self._is_linear else tf.sqrt(ratio)


class FollowingWaitLimit(FollowingPart):
    """The part of a step whose update mode goes on without more or fewer replicas or steps.

    Args:
      name: the flag.
      bounds: the smallest number, which is the first, and the largest one.
    """

    def __init__(self, name: str, bounds: Bounds) -> None:
        self._name, self._bounds = name, bounds

    def update(self, update: MakeUpdate) -> MakeUpdate:
        """Gives the mode the number on ps 0 in the place of a fixed one."""

        def updated(given: ToUpdate) -> Updated:
            lower, upper = self._bounds
            self.adapted = AdaptedValue(self._name, Ladder(range(lower, upper + 1), STRAGGLERS))
            return update(dataclasses.replace(given, limit=WaitLimit(upper, self.adapted.value)))

        return updated


class FollowingPushCodec(PushCodec, FollowingPart):
    """The part of a step whose codec follows the network: ps 0 holds its place among the job's codecs."""

    def __init__(self, spec: GraphSpec, is_weighted: bool) -> None:
        self._ladder = Ladder(range(len(spec.job.push_codecs)), BYTES)
        self._chosen = Chosen([codec_of(text) for text in spec.job.push_codecs[1:]])
        super().__init__(spec, self._chosen, [self._chosen], is_weighted)

    def pull(self, pull: Pull) -> Pull:
        """Pulls the codec of the step."""
        self.adapted = AdaptedValue("push_codec", self._ladder)

        def pulled(received: Callable[[tf.Tensor], tf.Tensor]) -> Pulled:
            found = pull(received)
            self._chosen.number = self.adapted.pulled(found.versions[0])
            return dataclasses.replace(found, read=[*found.read, self._chosen.number])

        return pulled


def scaled_rates(spec: GraphSpec) -> list[ScaledRate]:
    """Returns the part of a learning rate that follows the number of examples: none, or one."""
    job = spec.job
    return [ScaledRate(job, spec.replica.declared)] if job.scale_learning_rate != "none" else []


def following_parts(spec: GraphSpec, update: UpdateMode) -> Sequence[StepPart]:
    """Returns the parts of the values that follow measurements in a job, in the order in which they are tried."""
    job, parts = spec.job, list[StepPart]()
    if job.batch_sizes.is_range:
        parts.append(FollowingBatchSize(job, 0 if update.lockstep else ONE_SIZE.ahead))
    if (limits := job.wait_limits(spec.replica.declared)).is_range:
        parts.append(FollowingWaitLimit("backup_workers" if job.update == "sync" else "max_steps_ahead", limits))
    if len(job.push_codecs) > 1:
        parts.append(FollowingPushCodec(spec, update.scaled))
    return parts
