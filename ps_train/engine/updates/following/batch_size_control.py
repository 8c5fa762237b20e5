"""A batch size that follows the network: its variable on ps 0, and its way to the workers.

The chief chooses the size (`adaptation.py`) and writes it to ps 0, together with the global step from which it
holds.  Each step reads it there in its pull.  In a synchronous round all workers pull at the same global step, so they
have the same size.  The worker leaves the size in a variable of its own, where its input reads it
(`dynamic_batches.py`).

    schedule, worker = ScheduledValue("batch_size", sizes), WorkerBatchSize(sizes, ahead=2)
    batches = training_batches(data, shard, worker.batches, ...)
    follow = worker.follow(schedule.at(step))   # in each step, before its batch
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.bounds import Bounds
from ps_train.config.validators import SYNC_SHARE
from ps_train.data.dynamic_batches import DynamicBatches
from ps_train.engine.updates.following.adaptation_policy import Ladder, synchronisation
from ps_train.engine.updates.following.adapted_value import AdaptedValue
from ps_train.engine.variables.mutex import mutex_of, with_mutex
from ps_train.engine.variables.variables import INPUT_STATE, ps_device, zeros_variable
from ps_train.engine.variables.worker_state import local_variable


def possible_sizes(sizes: Bounds) -> tuple[int, ...]:
    """Returns the lower bound, doubled as long as the upper bound allows."""
    return tuple(sizes.lower << times for times in range((sizes.upper // sizes.lower).bit_length()))


class ScheduledValue(AdaptedValue):
    """A number for each global step, in a variable on ps 0: a number, a global step, and the number from it on.

    Args:
      name: the flag that gives it.
      bounds: the bounds of the job; the lower one is doubled as long as the upper one allows.
      limit: largest share of a step that synchronisation may take.

    Attributes:
      variable: int64 [3]; zeros stand for the lower bound.
    """

    def __init__(self, name: str, bounds: Bounds, limit: float = SYNC_SHARE) -> None:
        self._possible_values = possible_sizes(bounds)
        super().__init__(name, Ladder(self._possible_values, synchronisation(limit)))

    def make_variable(self) -> Any:
        """Returns the variable on ps 0."""
        return zeros_variable(f"ps_train/{self.name}", tf.int64, [3])

    def at(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the number at a global step (int64 scalar on ps 0); it is read after the step."""
        with tf.device(ps_device(0)), tf.control_dependencies([step]):
            before, since, newest = tf.unstack(self.variable.read_value())
            return self._possible(tf.where(step >= since, newest, before))

    def newest(self) -> tf.Tensor:
        """Returns the number that was chosen last, int64 scalar."""
        with tf.device(ps_device(0)):
            return self._possible(self.variable.read_value()[2])

    def change(self, global_step: Any) -> tuple[tf.Tensor, tf.Operation]:
        """Returns a placeholder of a number, and the operation that makes it the one from the next global step on.

        The global step does not change meanwhile, because updates are made under the same mutex.

        Args:
          global_step: the variable.
        """
        wanted = v1.placeholder(tf.int64, [], self.name)

        def body() -> tuple[list[tf.Operation], None]:
            step = global_step.read_value()
            value = tf.stack([self.at(step), step + 1, wanted])
            return [self.variable.assign(value, read_value=False)], None

        with tf.device(ps_device(0)):
            return wanted, with_mutex(mutex_of(0), [tf.identity(wanted)], body)[0]

    def _possible(self, value: tf.Tensor) -> tf.Tensor:
        """Returns the largest possible number up to `value`, since a checkpoint may be of a job with other bounds."""
        known = tf.constant(self._possible_values, tf.int64)
        index = tf.searchsorted(known, tf.reshape(value, [1]), side="right")[0] - 1
        return tf.gather(known, tf.maximum(index, 0))


class WorkerBatchSize:
    """The size of the next batch, in a variable of the worker; make it before the batches.

    Args:
      sizes: the bounds of the job.
      ahead: see `DynamicBatches`.

    Attributes:
      batches: tf.data's part.
    """

    def __init__(self, sizes: Bounds, ahead: int) -> None:
        with tf.device("/device:CPU:0"):
            self._variable = local_variable(f"{INPUT_STATE}/batch_size", [], tf.int64, sizes.lower)
        self.batches = DynamicBatches(sizes.lower, sizes.upper, self._variable.read_value, ahead)

    def follow(self, size: tf.Tensor) -> tf.Operation:
        """Returns the operation that makes a pulled size that of the next batch."""
        with tf.device("/device:CPU:0"), tf.name_scope(f"{INPUT_STATE}/"):
            return self._variable.assign(size, read_value=False)
