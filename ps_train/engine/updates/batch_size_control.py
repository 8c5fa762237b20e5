"""A batch size that follows the network: its variable on ps 0, its way to the workers, and the chief's hook.

The chief chooses the size (`batch_size_policy.py`) and writes it to ps 0, together with the global step from which it
holds.  Each step reads it there in its pull.  In a synchronous round all workers pull at the same global step, so they
have the same size.  The worker leaves the size in a variable of its own, where its input reads it
(`dynamic_batches.py`).

    size = batch_size_of(job, ahead=True)
    batches = training_batches(data, shard, size.of_input, ...)
    read = size.follow(step, batches)           # tensors that the step pulls

A fixed size is a `BatchSize` that follows nothing.  So the parts of a step do not ask which of the two they have.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import add_control_inputs
from ps_train.cluster.sessions.calls import SHORT_CALL
from ps_train.config.batch_sizes import BatchSizes
from ps_train.config.job import Job
from ps_train.config.validators import parse_limits
from ps_train.data.dynamic_batches import DynamicBatches
from ps_train.data.pipeline import Batches
from ps_train.engine.updates.batch_size_policy import BatchSizePolicy
from ps_train.engine.variables.mutex import mutex_of, with_mutex
from ps_train.engine.variables.variables import ps_device, zeros_variable
from ps_train.engine.variables.worker_state import local_variable

log = logging.getLogger(__name__)

SYNC_PARTS = ("pull", "push", "wait", "update")
"""Parts of a step that are synchronisation; see docs/WATCHING.md."""

SYNC_SHARE = 0.2
"""Largest share of a step that synchronisation may take, where --health_limits sets none."""

_MIN_SECS, _MIN_STEPS = 2.0, 10
"""Shortest time, and fewest global steps, over which examples per second are measured."""
_PAUSE_SECS, _MOST_COST = 2.0, 0.05
"""Pause between samples of a step, and the share of time that they may cost, where the batch size depends on them."""


class BatchSizeSchedule:
    """The size of the batches of each step, in a variable on ps 0: a size, a global step, and the size from it on.

    Args:
      sizes: the bounds of the job.

    Attributes:
      variable: int64 [3]; zeros stand for the lower bound.
    """

    def __init__(self, sizes: BatchSizes) -> None:
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
            self._variable = local_variable("ps_train/batch_size_here", [], tf.int64, sizes.lower)
        self.batches = DynamicBatches(sizes.lower, sizes.upper, self._variable.read_value, ahead)

    def follow(self, size: tf.Tensor) -> tf.Operation:
        """Returns the operation that makes a pulled size that of the next batch."""
        with tf.device("/device:CPU:0"):
            return self._variable.assign(size, read_value=False)


class BatchSize:
    """The size of a worker's batches in the graph of its step: fixed, as --batch_size gives it.

    Args:
      job: the job.

    Attributes:
      of_input: what the input makes batches of.
      saved: variables on ps 0 that belong into a checkpoint.
    """

    def __init__(self, job: Job) -> None:
        self.of_input: int | DynamicBatches = job.min_batch_size
        self.saved: list[Any] = []

    def follow(self, step: tf.Tensor, batches: Batches) -> list[tf.Tensor]:
        """Makes the batch of a step (int64 scalar on ps 0) have its size; returns what is read on ps 0 for it."""
        return []

    def newest(self) -> dict[str, tf.Tensor]:
        """Returns the size that was chosen last, by its name among the counters of a run; {} where it is fixed."""
        return {}

    def hooks(self, global_step: Any, examples: Any, tracer: Tracer) -> list[v1.train.SessionRunHook]:
        """Returns the chief's hooks; see `BatchSizeHook`."""
        return []


class FollowingBatchSize(BatchSize):
    """A size that follows the network.

    Args:
      job: the job.
      ahead: see `DynamicBatches`.

    Attributes:
      schedule: the sizes, on ps 0.
    """

    def __init__(self, job: Job, ahead: bool) -> None:
        super().__init__(job)
        self._job, self.schedule = job, BatchSizeSchedule(job.batch_sizes)
        self._worker = WorkerBatchSize(job.batch_sizes, ahead)
        self.of_input, self.saved = self._worker.batches, [self.schedule.variable]

    def follow(self, step: tf.Tensor, batches: Batches) -> list[tf.Tensor]:
        """Makes the batch have the size that ps 0 holds for the step; returns that size."""
        found = self.schedule.at(step)
        add_control_inputs(batches.get_next_op, [self._worker.follow(found)])
        return [found]

    def newest(self) -> dict[str, tf.Tensor]:
        """Returns the size that was chosen last."""
        return {"batch_size": self.schedule.newest()}

    def hooks(self, global_step: Any, examples: Any, tracer: Tracer) -> list[v1.train.SessionRunHook]:
        """Returns the hook that chooses the size."""
        limit = parse_limits(self._job.health_limits).get("sync_share", SYNC_SHARE)
        policy = BatchSizePolicy(self._job.batch_sizes.sizes, limit)
        return [BatchSizeHook(self.schedule, global_step, examples, policy, tracer)]


def batch_size_of(job: Job, ahead: bool) -> BatchSize:
    """Returns the size of a worker's batches; make it before them, in the worker's device scope.

    Args:
      job: the job.
      ahead: see `DynamicBatches`.
    """
    return FollowingBatchSize(job, ahead) if job.batch_sizes.is_range else BatchSize(job)


def learning_rate_divisor(job: Job, replicas: int) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """Returns the function of an update's examples that gives the divisor of its learning rate, at most 1.

    linear: Goyal et al. 2017, "Accurate, Large Minibatch SGD".  sqrt: Krizhevsky 2014, "One weird trick for
    parallelizing convolutional neural networks".

    Args:
      job: the job.
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


class Tracer(Protocol):
    """The part of a `StepTracer` that the hook needs."""

    latest: dict[str, float] | None

    def sample_often(self, pause_secs: float, most_cost: float) -> None:
        """Sets the pause between samples and their cost; forgets the durations of calls."""


class BatchSizeHook(v1.train.SessionRunHook):
    """The chief's hook that measures, and changes the size.

    Args:
      schedule: the variable of the size.
      global_step: the variable.
      examples: float scalar, the examples that all updates stand for.
      policy: chooses the size.
      tracer: samples the parts of the chief's steps.
      clock: returns the time in seconds.
    """

    def __init__(
        self,
        schedule: BatchSizeSchedule,
        global_step: Any,
        examples: Any,
        policy: BatchSizePolicy,
        tracer: Tracer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._policy, self._tracer, self._clock = policy, tracer, clock
        with tf.device(ps_device(0)):
            self._fetches = [schedule.newest(), global_step.read_value(), examples.read_value()]
        self._wanted, self._change = schedule.change(global_step)
        self._size = 0
        self._since: tuple[float, int, float] | None = None

    def before_run(self, run_context: Any) -> v1.train.SessionRunArgs:
        """Returns the fetches of the hook: size, global step, examples."""
        return v1.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Measures; changes the size if the policy chooses another one."""
        size, step, examples = (value.item() for value in run_values.results)
        now = self._clock()
        if self._since is None or size != self._size or step < self._since[1]:
            self._begin(size, (now, step, examples))
            return
        began, first, examples_before = self._since
        sample = self._tracer.latest
        if now - began < _MIN_SECS or step - first < _MIN_STEPS or sample is None:
            return
        if sample["step"] < first + _MIN_STEPS:  # some of its steps may have had the size before
            return
        share = sum(sample[part] for part in SYNC_PARTS) / sample["secs"] if sample["secs"] > 0 else 0.0
        rate = (examples - examples_before) / (now - began)
        chosen = self._policy.next_size(size, share, rate)
        if chosen != size:
            log.info(
                "batch size %d from step %d on, before %d: synchronisation took %.0f%% of a step at %.0f examples/s",
                chosen, step + 1, size, 100 * share, rate,
            )  # fmt: skip
            try:
                run_context.session.run(self._change, {self._wanted: chosen}, options=SHORT_CALL)
                size = chosen
            except tf.errors.DeadlineExceededError:
                log.debug("the batch size could not be changed: ps:0 is busy")
        self._begin(size, (now, step, examples))

    def _begin(self, size: int, since: tuple[float, int, float]) -> None:
        """Begins to measure a size."""
        if size != self._size:
            self._tracer.sample_often(_PAUSE_SECS, _MOST_COST)
        self._size, self._since = size, since
