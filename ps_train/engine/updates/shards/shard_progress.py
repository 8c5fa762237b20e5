"""The examples that a ps has used: the cursor of each data shard (`data/shards/shard_layout.py`).

    progress = ShardProgress(ps=0, shards=64)
    progress.are_next(batches)           # under the ps's mutex: do the shards stand where these batches begin?
    progress.advance(batches, only_if)   # under the same mutex as the update: moves the cursors to the batches' ends

`batches` are the progress of a push's batches, int64 [n, 3]: for each its shard, and the shard's cursor before and
after it (`data/shards/shard_batches.py`).  Each shard is there once: batches that follow each other are one.
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

    Args:
      ps: index of the ps.
      shards: number of shards.
      most: the most batches of a push.

    Attributes:
      progress: int64 variable [shards].
    """

    def __init__(self, ps: int, shards: int, most: int = 1) -> None:
        self._ps, self._most = ps, most
        with tf.device(ps_device(ps)):
            self.progress = zeros_variable(f"ps_train/progress_{ps}", tf.int64, [shards])

    def judge(self, push: ReceivedPush) -> Verdict:
        """Returns that a push is used in its turn.

        Its examples count as used even where its gradient is left out: it would be left out again every time.
        """
        (batches,) = push.progress
        is_next = self.are_next(batches)

        def ended(is_open: Sequence[tf.Tensor]) -> list[tf.Operation]:
            only_if = is_next
            for condition in is_open:
                only_if &= condition
            return [self.advance(batches, only_if)]

        return Verdict([is_next], [is_next | push.is_nothing()], ended)

    def in_round(self, replica: int, replicas: int) -> list[RoundPart]:
        """Returns the batches of a round."""
        return [RoundProgress(self, self._ps, replica, replicas, self._most)]

    def are_next(self, batches: tf.Tensor) -> tf.Tensor:
        """Returns whether all batches begin at their shards' cursors: bool scalar, false if none has a shard."""
        has_shard = batches[:, 0] >= 0
        cursors = tf.gather(self.progress.read_value(), tf.maximum(batches[:, 0], 0))
        return tf.reduce_any(has_shard) & tf.reduce_all(~has_shard | tf.equal(cursors, batches[:, 1]))

    def advance(self, batches: tf.Tensor, only_if: tf.Tensor) -> tf.Operation:
        """Moves the cursors to the ends of batches if `only_if` (bool scalar, computed from `are_next`) is true."""
        return v1.cond(only_if, lambda: tf.group(self.advance_all(batches)), tf.no_op)

    def advance_all(self, batches: tf.Tensor) -> tf.Operation:
        """Moves the cursors to the ends of those of `batches` (int64 [n, 3]) that have a shard."""
        present = tf.boolean_mask(batches, batches[:, 0] >= 0)
        return self.progress.scatter_nd_update(present[:, :1], present[:, 2]).op


class RoundProgress(RoundPart):
    """The batches pushed to one ps in the current synchronous round, by replica.

    They count as used when the round ends.  Make the object on the ps's device.

    Args:
      shard_progress: the cursors of the ps.
      ps: index of the ps.
      index: index of this replica.
      replicas: number of replicas.
      most: the most batches of a push.
    """

    def __init__(self, shard_progress: ShardProgress, ps: int, index: int, replicas: int, most: int) -> None:
        self._shard_progress, self._most = shard_progress, most
        self._is_own_row = (np.arange(replicas) == index)[:, np.newaxis, np.newaxis]
        self._none = np.full([replicas, most, 3], _NO_SHARD, np.int64)
        self._batches = v1.get_variable(
            f"ps_train/tickets_{ps}", initializer=self._none, trainable=False, use_resource=True
        )

    def accepts(self, push: ReceivedPush) -> list[tf.Tensor]:
        """Returns whether a push's examples are unused, and no other replica has pushed them in this round."""
        (batches,) = push.progress
        recorded = tf.reshape(self._batches.read_value()[:, :, 0], [-1])
        taken = tf.reduce_any(tf.equal(recorded, batches[:, :1]) & (batches[:, :1] >= 0))
        return [self._shard_progress.are_next(batches) & ~taken]

    def add(self, push: ReceivedPush, only_if: tf.Tensor) -> tf.Operation:
        """Records this replica's batches if `only_if` (bool scalar, computed from `accepts`) is true."""
        (batches,) = push.progress
        rest = [[0, self._most - tf.shape(batches)[0]], [0, 0]]
        own = tf.ensure_shape(tf.pad(batches, rest, constant_values=_NO_SHARD), [self._most, 3])
        recorded = self._batches.read_value()
        return self._batches.assign(tf.where(self._is_own_row & only_if, own, recorded), read_value=False)

    def discard(self, push: ReceivedPush, only_if: tf.Tensor) -> tf.Operation:
        """Counts batches as used without an update, if `only_if` (bool scalar) is true; their examples are skipped."""
        (batches,) = push.progress
        return self._shard_progress.advance(batches, only_if)

    def finish(self) -> tf.Operation:
        """Ends the round: counts the recorded batches as used and clears them."""
        batches = tf.reshape(self._batches.read_value(), [-1, 3])
        with tf.control_dependencies([batches]):
            return tf.group(self._shard_progress.advance_all(batches), self.clear())

    def clear(self) -> tf.Operation:
        """Forgets the recorded batches."""
        return self._batches.assign(self._none, read_value=False)
