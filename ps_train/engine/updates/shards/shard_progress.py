"""The examples that a ps has used: the cursor of each data shard (`data/shards/shard_layout.py`).

    progress = ShardProgress(ps=0, shards=64)
    progress.is_next(batch)              # under the ps's mutex: does the shard stand where this batch begins?
    progress.advance(batch, only_if)     # under the same mutex as the update: moves the cursor to the batch's end

`batch` is a batch's progress, int64 [3]: its shard, and the shard's cursor before and after it
(`data/shards/shard_batches.py`).
An example counts as used exactly if the variables contain its update.  A repeated push, or a push out of order,
changes nothing, whichever worker sends it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.modes.shard_part import RoundPart, ShardPart, Verdict
from ps_train.engine.variables.variables import ps_device, zeros_variable

_NO_SHARD = -1


class ShardProgress(ShardPart):
    """The cursors of all shards on one ps.

    Attributes:
      progress: int64 variable [shards].
    """

    def __init__(self, ps: int, shards: int) -> None:
        self._ps = ps
        with tf.device(ps_device(ps)):
            self.progress = zeros_variable(f"ps_train/progress_{ps}", tf.int64, [shards])

    def judge(self, push: ReceivedPush) -> Verdict:
        """Returns that a push is used in its turn.

        Its examples count as used even where its gradient is left out: it would be left out again every time.
        """
        (batch,) = push.progress
        is_next = self.is_next(batch)

        def ended(is_open: Sequence[tf.Tensor]) -> list[tf.Operation]:
            only_if = is_next
            for condition in is_open:
                only_if &= condition
            return [self.advance(batch, only_if)]

        return Verdict([is_next], [is_next | push.is_nothing()], ended)

    def in_round(self, replica: int, replicas: int) -> list[RoundPart]:
        """Returns the batches of a round."""
        return [RoundProgress(self, self._ps, replica, replicas)]

    def is_next(self, batch: tf.Tensor) -> tf.Tensor:
        """Returns whether a batch begins at its shard's cursor: bool scalar, false for a batch without a shard."""
        return (batch[0] >= 0) & tf.equal(self.progress.read_value()[tf.maximum(batch[0], 0)], batch[1])

    def advance(self, batch: tf.Tensor, only_if: tf.Tensor) -> tf.Operation:
        """Moves the cursor to the end of a batch if `only_if` (bool scalar, computed from `is_next`) is true."""

        def move() -> tf.Operation:
            return self.progress.scatter_nd_update([[batch[0]]], [batch[2]]).op

        return v1.cond(only_if, lambda: tf.group(move()), tf.no_op)

    def advance_all(self, batches: tf.Tensor) -> tf.Operation:
        """Moves the cursors to the ends of those of `batches` (int64 [n, 3]) that have a shard."""
        present = tf.boolean_mask(batches, batches[:, 0] >= 0)
        return self.progress.scatter_nd_update(present[:, :1], present[:, 2]).op


class RoundProgress(RoundPart):
    """The batches pushed to one ps in the current synchronous round, one for each replica.

    They count as used when the round ends.  Make the object on the ps's device.

    Args:
      shard_progress: the cursors of the ps.
      ps: index of the ps.
      index: index of this replica.
      replicas: number of replicas.
    """

    def __init__(self, shard_progress: ShardProgress, ps: int, index: int, replicas: int) -> None:
        self._shard_progress, self._is_own_row = shard_progress, np.arange(replicas)[:, np.newaxis] == index
        self._none = np.full([replicas, 3], _NO_SHARD, np.int64)
        self._batches = v1.get_variable(
            f"ps_train/tickets_{ps}", initializer=self._none, trainable=False, use_resource=True
        )

    def accepts(self, push: ReceivedPush) -> tf.Tensor:
        """Returns whether this round uses a batch: its examples are unused, and no other replica has pushed them."""
        (batch,) = push.progress
        taken = tf.reduce_any(tf.equal(self._batches.read_value()[:, 0], batch[0]))
        return self._shard_progress.is_next(batch) & ~taken

    def add(self, push: ReceivedPush, only_if: tf.Tensor) -> tf.Operation:
        """Records this replica's batch if `only_if` (bool scalar, computed from `accepts`) is true."""
        (batch,) = push.progress
        recorded = self._batches.read_value()
        return self._batches.assign(tf.where(self._is_own_row & only_if, batch, recorded), read_value=False)

    def discard(self, push: ReceivedPush, only_if: tf.Tensor) -> tf.Operation:
        """Counts a batch as used without an update, if `only_if` (bool scalar) is true; its examples are skipped."""
        (batch,) = push.progress
        return self._shard_progress.advance(batch, only_if)

    def finish(self) -> tf.Operation:
        """Ends the round: counts the recorded batches as used and clears them."""
        batches = self._batches.read_value()
        with tf.control_dependencies([batches]):
            return tf.group(self._shard_progress.advance_all(batches), self.clear())

    def clear(self) -> tf.Operation:
        """Forgets the recorded batches."""
        return self._batches.assign(self._none, read_value=False)
