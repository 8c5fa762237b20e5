"""Who takes part in a round of synchronous updates, and when the round is complete.  Pure functions of tensors.

A round is one update in the making.  Its members are LIVE; who comes (again) while it is being made is COMING and a
member of the next one.  It is complete when all members but the backups have arrived.  Who leaves is waited for no
more; if he has arrived already, his gradient counts.

All tensors are int64 [replicas]; `me` is true at the replica that a function is about.  (`tf.equal`, because in a
TensorFlow 1 graph `==` compares Python objects.)
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

LEFT, MEMBER, JOINING = 0, 1, 2
"""A replica's standing."""

UNKNOWN, WANTED, UNWANTED = 0, 1, 2
"""Whether a ps that is told who belongs to the round is to wait for a replica's gradient."""


@dataclasses.dataclass(frozen=True)
class RoundState:
    """The state of a round on the first ps: everybody's standing, and 1 for those that have arrived."""

    membership: tf.Tensor
    arrived: tf.Tensor

    def visit(
        self, me: tf.Tensor, in_time: tf.Tensor, is_open: tf.Tensor, backups: int
    ) -> tuple[RoundState, tf.Tensor]:
        """After a replica's push.

        Args:
          in_time: its gradient is of this round, and its first.
          is_open: there are rounds to be made; else nobody comes any more.

        Returns:
          the new state, and whether the round is complete (bool scalar).
        """
        nobody = ~tf.reduce_any(tf.equal(self.membership, MEMBER))
        entering = tf.where(nobody, tf.constant(MEMBER, tf.int64), tf.constant(JOINING, tf.int64))
        standing = tf.where(me & tf.equal(self.membership, LEFT) & is_open, entering, self.membership)
        arrived = tf.where(me & in_time, tf.ones_like(self.arrived), self.arrived)
        after = RoundState(standing, arrived)
        return after, in_time & after._complete(backups)

    def leave(self, me: tf.Tensor, backups: int) -> tuple[RoundState, tf.Tensor, tf.Tensor]:
        """After a replica has left: the new state, whether the round is complete now, and whether it must be given up
        because nobody is left who could complete it while somebody waits for the next one."""
        after = RoundState(tf.where(me, tf.zeros_like(self.membership), self.membership), self.arrived)
        complete = tf.reduce_any(tf.equal(self.arrived, 1)) & after._complete(backups)
        nobody = ~tf.reduce_any(tf.equal(after.membership, MEMBER))
        return after, complete, ~complete & nobody & tf.reduce_any(tf.equal(after.membership, JOINING))

    def next_if(self, over: tf.Tensor) -> RoundState:
        """The beginning of the next round, where this one is over (bool scalar)."""
        standing = tf.where(over & tf.equal(self.membership, JOINING), tf.ones_like(self.membership), self.membership)
        return RoundState(standing, tf.where(over, tf.zeros_like(self.arrived), self.arrived))

    def awaited(self) -> tf.Tensor:
        """For whom those wait that have arrived; bool [replicas]."""
        return tf.equal(self.membership, MEMBER) & tf.equal(self.arrived, 0) & tf.reduce_any(tf.equal(self.arrived, 1))

    def _complete(self, backups: int) -> tf.Tensor:
        missing = tf.math.count_nonzero(tf.equal(self.membership, MEMBER) & tf.equal(self.arrived, 0))
        return missing <= backups


@dataclasses.dataclass(frozen=True)
class FollowerRoundState:
    """The state of a round on another ps, which is told by the first who belongs to it.

    Attributes:
      present: 0 for those that have left and did not come again.
      wanted: UNKNOWN for all, until the first ps has completed the round; then WANTED or UNWANTED.
    """

    present: tf.Tensor
    arrived: tf.Tensor
    wanted: tf.Tensor

    def visit(self, me: tf.Tensor, in_time: tf.Tensor, wanted: tf.Tensor) -> tuple[FollowerRoundState, tf.Tensor]:
        """After a push; `wanted` is UNKNOWN for all unless it completed the round on the first ps."""
        ones = tf.ones_like(self.present)
        after = FollowerRoundState(
            tf.where(me, ones, self.present),
            tf.where(me & in_time, ones, self.arrived),
            tf.where(tf.not_equal(wanted, UNKNOWN), wanted, self.wanted),
        )
        return after, after._complete()

    def leave(self, me: tf.Tensor, wanted: tf.Tensor) -> tuple[FollowerRoundState, tf.Tensor]:
        after = FollowerRoundState(
            tf.where(me, tf.zeros_like(self.present), self.present),
            self.arrived,
            tf.where(tf.not_equal(wanted, UNKNOWN), wanted, self.wanted),
        )
        return after, after._complete()

    def next_if(self, over: tf.Tensor) -> FollowerRoundState:
        zeros = tf.zeros_like(self.arrived)
        return FollowerRoundState(self.present, tf.where(over, zeros, self.arrived), tf.where(over, zeros, self.wanted))

    def _complete(self) -> tf.Tensor:
        awaited = tf.equal(self.wanted, WANTED) & tf.equal(self.present, 1)
        return tf.reduce_all(tf.not_equal(self.wanted, UNKNOWN)) & tf.reduce_all(~awaited | tf.equal(self.arrived, 1))
