"""Membership and completion of a round of synchronous updates, as pure functions of tensors.

A round is one update in the making.  Its members are MEMBER.  A replica that joins or returns during a round is
JOINING and becomes a member of the next round.  A round is complete when all members but the backups have arrived.  A
replica that leaves is no longer waited for.  Its gradient counts if it has already arrived.

All tensors are int64 [replicas].  `me` (bool [replicas]) is true at the replica that a method is about.  The code uses
`tf.equal` because in a TensorFlow 1 graph `==` compares Python objects.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

LEFT, MEMBER, JOINING = 0, 1, 2
"""A replica's membership in a round."""

UNKNOWN, WANTED, UNWANTED = 0, 1, 2
"""Decision for a follower ps about each replica of a round: still unknown, wait for its gradient, or do not wait."""


@dataclasses.dataclass(frozen=True)
class RoundState:
    """The state of a round on the first ps.

    Attributes:
      membership: int64 [replicas], LEFT, MEMBER or JOINING.
      arrived: int64 [replicas], 1 for the replicas whose gradient has arrived.
    """

    membership: tf.Tensor
    arrived: tf.Tensor

    def visit(
        self, me: tf.Tensor, in_time: tf.Tensor, is_open: tf.Tensor, backups: int | tf.Tensor
    ) -> tuple[RoundState, tf.Tensor]:
        """Computes the state after a replica's push.

        Args:
          me: the replica that pushes.
          in_time: bool scalar; the gradient belongs to this round and is the replica's first in it.
          is_open: bool scalar; there are rounds left to make.  Where it is false, no replica joins.
          backups: number of members that a round does not wait for.

        Returns:
          The new state, and whether the round is complete (bool scalar).
        """
        no_member = ~tf.reduce_any(tf.equal(self.membership, MEMBER))
        entering = tf.where(no_member, tf.constant(MEMBER, tf.int64), tf.constant(JOINING, tf.int64))
        membership = tf.where(me & tf.equal(self.membership, LEFT) & is_open, entering, self.membership)
        arrived = tf.where(me & in_time, tf.ones_like(self.arrived), self.arrived)
        after = RoundState(membership, arrived)
        return after, in_time & after._complete(backups)

    def leave(self, me: tf.Tensor, backups: int | tf.Tensor) -> tuple[RoundState, tf.Tensor, tf.Tensor]:
        """Computes the state after a replica has left.

        Args:
          me: the replica that leaves.
          backups: number of members that a round does not wait for.

        Returns:
          The new state; whether the round is complete now; and whether it must be given up, because no member is left
          to complete it while a replica waits to join the next one.
        """
        after = RoundState(tf.where(me, tf.zeros_like(self.membership), self.membership), self.arrived)
        complete = tf.reduce_any(tf.equal(self.arrived, 1)) & after._complete(backups)
        no_member = ~tf.reduce_any(tf.equal(after.membership, MEMBER))
        return after, complete, ~complete & no_member & tf.reduce_any(tf.equal(after.membership, JOINING))

    def next_if(self, over: tf.Tensor) -> RoundState:
        """Returns the initial state of the next round where this round is over (bool scalar), else this state."""
        membership = tf.where(over & tf.equal(self.membership, JOINING), tf.ones_like(self.membership), self.membership)
        return RoundState(membership, tf.where(over, tf.zeros_like(self.arrived), self.arrived))

    def awaited(self) -> tf.Tensor:
        """Returns the replicas that the arrived replicas wait for; bool [replicas]."""
        return tf.equal(self.membership, MEMBER) & tf.equal(self.arrived, 0) & tf.reduce_any(tf.equal(self.arrived, 1))

    def _complete(self, backups: int | tf.Tensor) -> tf.Tensor:
        missing = tf.math.count_nonzero(tf.equal(self.membership, MEMBER) & tf.equal(self.arrived, 0))
        return missing <= backups


IN_TIME, LATE, NEITHER = 1, 2, 0
"""Outcomes of a push: it belongs to the present round, its round is over, or the replica is no member."""


@dataclasses.dataclass(frozen=True)
class Decision:
    """The first ps's decision about a push or a removal, for the others.

    It also tells them how the last complete round was made up.  So they can end that round even if the push that
    completed it reached the first ps only, because its worker died or lost its session in between.

    Attributes:
      outcome: int64 scalar, IN_TIME, LATE or NEITHER.
      round: int64 scalar, the present round.
      until: int64 scalar; the replica goes on when this round begins.
      last: int64 scalar, the last complete round.
      wanted: int64 [replicas], WANTED or UNWANTED in the last complete round.
    """

    outcome: tf.Tensor
    round: tf.Tensor
    until: tf.Tensor
    last: tf.Tensor
    wanted: tf.Tensor

    @classmethod
    def of(cls, vector: tf.Tensor) -> Decision:
        """Returns the decision of which `vector()` was sent."""
        return cls(vector[0], vector[1], vector[2], vector[3], vector[4:])

    def vector(self) -> tf.Tensor:
        """Returns the decision as int64 [4 + replicas]."""
        return tf.concat([tf.stack([self.outcome, self.round, self.until, self.last]), self.wanted], 0)

    def wanted_in(self, round: tf.Tensor) -> tf.Tensor:
        """Returns `wanted` if it is of that round (int64 scalar), else UNKNOWN for all replicas."""
        return tf.where(tf.equal(round, self.last), self.wanted, tf.zeros_like(self.wanted) + UNKNOWN)

    def reached(self, round: tf.Tensor, over: tf.Tensor) -> tf.Tensor:
        """Returns the round that another ps reaches from its `round` (int64 scalar), if that is `over` there (bool).

        Rounds after the last complete one were given up on the first ps, and have no gradients.
        """
        following = round + tf.cast(over, tf.int64)
        return tf.where(following > self.last, tf.maximum(following, self.round), following)


@dataclasses.dataclass(frozen=True)
class FollowerRoundState:
    """The state of a round on a follower ps, which learns from the first ps which replicas belong to the round.

    Attributes:
      present: int64 [replicas], 0 for replicas that have left and not returned, else 1.
      arrived: int64 [replicas], 1 for the replicas whose gradient has arrived.
      wanted: int64 [replicas], UNKNOWN for all until the first ps has completed the round; then WANTED or UNWANTED.
    """

    present: tf.Tensor
    arrived: tf.Tensor
    wanted: tf.Tensor

    def visit(self, me: tf.Tensor, in_time: tf.Tensor, wanted: tf.Tensor) -> tuple[FollowerRoundState, tf.Tensor]:
        """Computes the state after a replica's push.

        A replica makes one step after the other.  If it comes with a push of another round, its push of this round was
        lost on the way, and is no longer waited for.

        Args:
          me: the replica that pushes.
          in_time: bool scalar; the gradient belongs to this round and is the replica's first in it.
          wanted: see `Decision.wanted_in`.

        Returns:
          The new state, and whether the round is complete (bool scalar).
        """
        ones = tf.ones_like(self.present)
        wanted = tf.where(tf.not_equal(wanted, UNKNOWN), wanted, self.wanted)
        lost = me & ~in_time & tf.equal(self.arrived, 0) & tf.equal(wanted, WANTED)
        after = FollowerRoundState(
            tf.where(me, ones, self.present),
            tf.where(me & in_time, ones, self.arrived),
            tf.where(lost, UNWANTED * ones, wanted),
        )
        return after, after._complete()

    def leave(self, me: tf.Tensor, wanted: tf.Tensor) -> tuple[FollowerRoundState, tf.Tensor]:
        """Computes the state after a replica has left, and whether the round is complete now (bool scalar)."""
        after = FollowerRoundState(
            tf.where(me, tf.zeros_like(self.present), self.present),
            self.arrived,
            tf.where(tf.not_equal(wanted, UNKNOWN), wanted, self.wanted),
        )
        return after, after._complete()

    def has_gradient(self) -> tf.Tensor:
        """Returns whether any gradient has arrived, bool scalar."""
        return tf.reduce_any(tf.equal(self.arrived, 1))

    def next_if(self, over: tf.Tensor) -> FollowerRoundState:
        """Returns the initial state of the next round where this round is over (bool scalar), else this state."""
        zeros = tf.zeros_like(self.arrived)
        return FollowerRoundState(self.present, tf.where(over, zeros, self.arrived), tf.where(over, zeros, self.wanted))

    def _complete(self) -> tf.Tensor:
        awaited = tf.equal(self.wanted, WANTED) & tf.equal(self.present, 1)
        return tf.reduce_all(tf.not_equal(self.wanted, UNKNOWN)) & tf.reduce_all(~awaited | tf.equal(self.arrived, 1))
