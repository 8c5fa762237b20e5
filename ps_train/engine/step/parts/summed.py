"""Values that all workers add up, such as the sums behind the metrics of a training."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.pipeline import Batches
from ps_train.engine.step.backward import Computed, PulledInputs
from ps_train.engine.step.parts.step_part import Compute, MakeUpdate, Push, StepPart, ToUpdate, Updated
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.modes.shard_part import PendingSum, RoundPart, ShardPart, Verdict
from ps_train.engine.variables.variables import ps_device, zeros_variable
from ps_train.modeling.model import SUMS


class Sums(StepPart):
    """The part of a step whose model adds to sums; they are on ps 0, and no checkpoint has them.

    Args:
      count: number of the sums.

    Attributes:
      present: after `update`, float64 [count], the sums: float32 would lose single examples after 16 millions.
    """

    present: tf.Tensor

    def __init__(self, count: int) -> None:
        self._count = count

    def compute(self, compute: Compute) -> Compute:
        """Finds what the batches add."""

        def computed(inputs: PulledInputs, batches: Batches) -> Computed:
            before = len(v1.get_collection(SUMS))
            found = compute(inputs, batches)
            added = v1.get_collection(SUMS)[before:]
            return dataclasses.replace(found, sums=[tf.add_n(added) if len(added) > 1 else added[0]])

        return computed

    def push(self, push: Push) -> Push:
        """Sends it to ps 0."""

        def pushed(pushes: list[ReceivedPush], computed: Computed) -> list[ReceivedPush]:
            (added,) = computed.sums
            # A batch after the end of the input repeats examples, and adds nothing.
            added = tf.where(computed.examples > 0, added, tf.zeros_like(added))
            return push([dataclasses.replace(one, sums=(added,)) if one.ps == 0 else one for one in pushes], computed)

        return pushed

    def update(self, update: MakeUpdate) -> MakeUpdate:
        """Adds it to the sums with the update."""

        def updated(given: ToUpdate) -> Updated:
            with tf.device(ps_device(0)):
                total = zeros_variable("ps_train/sums_of_model", tf.float64, [self._count])
                self.present = total.read_value()
            return update(given.with_shard_parts({0: SummedOnPs(total)}))

        return updated


class SummedOnPs(ShardPart):
    """The sums on ps 0.

    Args:
      total: float64 variable [count].
    """

    def __init__(self, total: tf.Variable) -> None:
        self._total = total

    def judge(self, push: ReceivedPush) -> Verdict:
        """Adds what a used push brings."""

        def ended(is_open: Sequence[tf.Tensor]) -> list[tf.Operation]:
            (added,) = push.sums
            only_if = tf.reduce_all(tf.stack([True, *is_open]))
            counted = tf.where(only_if, added, tf.zeros_like(added))
            return [self._total.assign_add(tf.cast(counted, tf.float64), read_value=False)]

        return Verdict(ended=ended)

    def in_round(self, replica: int, replicas: int) -> list[RoundPart]:
        """Returns the sums of a round."""
        return [PendingSum("ps_train/sums_of_round", self._total, lambda push: push.sums[0])]
