"""The part of a synchronous round on each ps: a replica's push, and a replica's removal.

The first ps decides (`CoordinatorShard`) and the others follow its decisions (`follower_shard.py`).  Everything happens
under the ps's mutex, except a step's wait in the gate for the end of the round.

A step may end after any operation on any ps, because its worker dies or loses its session.  The next push or removal
then completes what it has left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.modes.base import ParameterShard, Replica, WaitLimit
from ps_train.engine.updates.modes.gradient_accumulator import GradientAccumulator
from ps_train.engine.updates.modes.quorum import (
    IN_TIME,
    JOINING,
    LATE,
    LEFT,
    MEMBER,
    NEITHER,
    UNWANTED,
    WANTED,
    Decision,
    RoundState,
)
from ps_train.engine.updates.modes.shard_part import Counts, Update
from ps_train.engine.updates.modes.token_gate import TokenGate
from ps_train.engine.variables.call_started import after_all_started
from ps_train.engine.variables.mutex import mutex_of, with_mutex
from ps_train.engine.variables.variables import ps_device

CHIEF = 0
"""The replica that takes checkpoints."""


class RoundShard:
    """A round on one ps: its sums, number and state, and the gate at which replicas wait for its end.

    Args:
      shard: the ps's part of the model.
      received: the replica's push, as this ps receives it.
      round: int64 variable on this ps, the number of the round.
      replica: the replica that makes the step.
      may_be_empty: see `UpdateMode`.
      state: int64 [fields, replicas], the state of the first round.
      discards: whether the examples of a late push are left out; without backup workers they are read again.
    """

    def __init__(
        self,
        shard: ParameterShard,
        received: ReceivedPush,
        round: Any,
        replica: Replica,
        may_be_empty: bool,
        state: np.ndarray[Any, Any],
        discards: bool,
    ) -> None:
        self._shard, self._received, self._round, self._replica = shard, received, round, replica
        self._may_be_empty, self._initial_state, self._discards = may_be_empty, state, discards
        self._me = np.arange(replica.count) == replica.index
        with tf.device(ps_device(shard.ps)):
            self._sums = GradientAccumulator(f"ps_train/sums_{shard.ps}", received, replica)
            self._gate = TokenGate(f"ps_train/turnstile_{shard.ps}", replica.count)
            self._parts = [one for part in shard.parts for one in part.in_round(replica.index, replica.count)]
            self._state = v1.get_variable(
                f"ps_train/round_state_{shard.ps}", initializer=state, trainable=False, use_resource=True
            )

    @property
    def _mutex(self) -> str:
        return mutex_of(self._shard.ps)

    def _is(self, removed: tf.Tensor) -> tf.Tensor:
        return tf.equal(tf.range(self._replica.count, dtype=tf.int64), removed)

    def _finish(self, over: tf.Tensor, may_be_empty: bool) -> tf.Operation:
        """Makes the update where the round is over (bool scalar).  `may_be_empty`: it may be of no example."""

        def do() -> tf.Operation:
            means, header = self._sums.mean()
            state, has_state = self._sums.state()
            only_if = [header.examples > 0] if may_be_empty else []
            updated = self._shard.update(means, Update(header, state, has_state, self._sums.steps()), only_if)
            return tf.group(updated, *(part.finish() for part in self._parts))

        return v1.cond(over, do, tf.no_op)

    def _go_on(self, finish: tf.Operation, reached: tf.Tensor, forced: tf.Tensor | None = None) -> tf.Operation:
        """Begins the round `reached` (int64 scalar) after `finish`; releases those that wait for it, and `forced`."""
        with tf.control_dependencies([finish]):
            begin = self._round.assign(reached, read_value=False)
        with tf.control_dependencies([begin]):
            return self._gate.release(tf.identity(reached), forced)

    def reset(self, round: tf.Tensor) -> tf.Operation:
        """Begins with that round (int64 scalar) as at the first start."""

        def body() -> tuple[list[tf.Operation], None]:
            begin = [self._round.assign(round, read_value=False), *(part.clear() for part in self._parts)]
            state = self._state.assign(self._initial_state, read_value=False)
            return [*begin, state, self._gate.release_all()], None

        with tf.device(ps_device(self._shard.ps)):
            round = tf.identity(round)
            return with_mutex(self._mutex, [round], body)[0]

    def _accumulate(
        self, here: ReceivedPush, in_time: tf.Tensor, late: tf.Tensor, first: tf.Tensor
    ) -> tuple[list[tf.Operation], tf.Tensor]:
        """Adds a push to the round, if it is in time.

        With dynamic sharding a push is added as empty if another replica has used its examples.  With backup workers
        the examples of a late push are left out for good, or a slow worker would read the same ones again and again.
        Those of values from two rounds are not: one of the ps may lack them (`follower_shard.py`), and the worker reads
        them again.  So it does without backup workers, where a push is late only if its worker came back while a push
        of its former process was in the round.

        Returns:
          The operations, and whether the push was dropped (bool scalar).
        """
        conditions = [one for part in self._parts for one in part.accepts(here)]
        accepted = tf.reduce_all(tf.stack([True, *conditions]))
        noted = [part.add(here, accepted & in_time) for part in self._parts]
        if self._discards:
            is_whole = tf.equal(here.header().torn, 0)
            noted += [part.discard(here, accepted & late & is_whole) for part in self._parts]
        push = here.masked_by(accepted) if conditions else here
        dropped = late | (in_time & ~accepted & ~here.is_nothing())
        return [self._sums.add(push, in_time, first), *noted], dropped

    def _wait(self, waits: tf.Tensor, until: tf.Tensor) -> tf.Operation:
        return v1.cond(waits, lambda: self._gate.wait(self._replica.index, until), tf.no_op)

    def _pass(self, locked: tf.Operation, waits: tf.Tensor) -> tf.Operation:
        return tf.group(locked, self._gate.wait_for_token(self._replica.index, waits, locked))


class CoordinatorShard(RoundShard):
    """The ps that decides which replicas belong to a round.

    Args:
      shard, received, round, replica, may_be_empty: see `RoundShard`.
      max_steps: no round begins once the global step has reached it.
      backups: number of members that a round does not wait for.
      allowed: int64 variable; once the global step has reached it, the next round waits for all members, and the chief
        has no part in it before it has changed the variable.  None: there is no such limit.

    Attributes:
      push_decision: after `visit`, the decision for the other ps, as a vector.
      pushed_at: after `visit`, the time at which the push had arrived; float64 scalar, seconds.
      leave_decision: after `leave`, the decision for the other ps, as a vector.
    """

    def __init__(
        self,
        shard: ParameterShard,
        received: ReceivedPush,
        round: Any,
        replica: Replica,
        may_be_empty: bool,
        max_steps: int,
        backups: WaitLimit,
        allowed: Any = None,
    ) -> None:
        self._allowed = allowed
        # All declared replicas are members from the beginning, so no first step is wasted.
        state = np.array([replica.each(MEMBER, LEFT), [0] * replica.count], np.int64)
        super().__init__(shard, received, round, replica, may_be_empty, state, backups.most > 0)
        self._max_steps, self._backups = max_steps, backups
        with tf.device(ps_device(shard.ps)):
            # The last complete round, and for each replica whether its gradient was in it.
            closed = np.array([-1, *[UNWANTED] * replica.count], np.int64)
            self._closed = v1.get_variable(
                f"ps_train/closed_round_{shard.ps}", initializer=closed, trainable=False, use_resource=True
            )

    def visit(self) -> tf.Operation:
        """Adds the replica's push; ends after the round, if the replica waits for it."""
        with tf.device(ps_device(self._shard.ps)):
            here = self._received.on_ps()
            locked, found = with_mutex(self._mutex, [*here.tensors(), self._shard.version], lambda: self._visit(here))
            waits, self.push_decision, self.pushed_at = found
            return self._pass(locked, waits)

    def _visit(self, here: ReceivedPush) -> tuple[list[tf.Operation], Any]:
        index, now, state = self._replica.index, self._round.read_value(), self._round_state()
        header = here.header()
        pushed_at = tf.timestamp()
        is_open = self._shard.update_count.read_value() < self._max_steps
        if self._allowed is not None and index == CHIEF:
            is_open &= ~self._awaits_chief()
        member = tf.equal(state.membership[index], MEMBER) & is_open
        current = tf.equal(self._shard.version, now) & tf.equal(header.torn, 0)
        in_time = member & current & tf.equal(state.arrived[index], 0)
        after, over = state.visit(self._me, in_time, is_open, self._present_backups())
        late = member & ~current
        added, dropped = self._accumulate(here, in_time, late, first=~tf.reduce_any(tf.equal(state.arrived, 1)))
        with tf.control_dependencies(added):
            finish = self._finish(over, self._may_be_empty)
        stays = (member & current) | tf.equal(after.membership[index], JOINING)
        until = now + tf.cast(stays, tf.int64)
        waits = stays & ~over
        close, last, wanted = self._close(over, now, after)
        go_on = self._go_on(finish, now + tf.cast(over, tf.int64))
        with tf.control_dependencies([go_on]):  # both write the gate's variable
            wait = self._wait(waits, until)
        done = [go_on, close, self._assign(after.next_if(over)), wait, *self._count(dropped)]
        # A push that is here already may have been lost on the way to another ps.
        is_here = member & current & tf.equal(after.arrived[index], 1)
        outcome = tf.where(is_here, IN_TIME, tf.where(late, LATE, NEITHER))
        decision = Decision(tf.cast(outcome, tf.int64), now, until, last, wanted)
        return done, (waits, decision.vector(), pushed_at)

    def _close(
        self, complete: tf.Tensor, now: tf.Tensor, state: RoundState
    ) -> tuple[tf.Operation, tf.Tensor, tf.Tensor]:
        """Keeps how a complete round was made up; returns the last such round and who was in it, as in `Decision`."""
        chosen = tf.where(tf.equal(state.arrived, 1), tf.constant(WANTED, tf.int64), tf.constant(UNWANTED, tf.int64))
        closed = tf.where(complete, tf.concat([now[tf.newaxis], chosen], 0), self._closed.read_value())
        return self._closed.assign(closed, read_value=False), closed[0], closed[1:]

    def leave(self, removed: tf.Tensor, others: Sequence[int]) -> tf.Operation:
        """Removes a replica from the round: no replica waits for it, and it waits for no replica.

        Args:
          removed: int64 scalar, the replica's index.
          others: indexes of the other ps that take part.
        """
        with tf.device(ps_device(self._shard.ps)):
            removed = after_all_started(removed, others)
            locked, self.leave_decision = with_mutex(self._mutex, [removed], lambda: self._leave(self._is(removed)))
            return locked

    def _leave(self, me: tf.Tensor) -> tuple[list[tf.Operation], tf.Tensor]:
        now = self._round.read_value()
        after, complete, given_up = self._round_state().leave(me, self._present_backups())
        over = complete | given_up
        reached = now + tf.cast(over, tf.int64)
        with tf.control_dependencies([now]):  # otherwise it might be read after the next round has begun
            go_on = self._go_on(self._finish(complete, may_be_empty=True), reached, me)
        close, last, wanted = self._close(complete, now, after)
        decision = Decision(tf.constant(NEITHER, tf.int64), reached, reached, last, wanted)
        return [go_on, close, self._assign(after.next_if(over))], decision.vector()

    def awaited(self) -> tf.Tensor:
        """Returns the replicas that other replicas wait for; bool [replicas]."""
        with tf.device(ps_device(self._shard.ps)):
            return self._round_state().awaited()

    def _awaits_chief(self) -> tf.Tensor:
        return self._shard.update_count.read_value() >= self._allowed.read_value()

    def _present_backups(self) -> Any:
        backups = self._backups.value()
        if self._allowed is None:
            return backups
        return tf.where(self._awaits_chief(), tf.constant(0, tf.int64), tf.cast(backups, tf.int64))

    def _round_state(self) -> RoundState:
        return RoundState(*tf.unstack(self._state.read_value()))

    def _assign(self, state: RoundState) -> tf.Operation:
        return self._state.assign(tf.stack([state.membership, state.arrived]), read_value=False)

    def _count(self, dropped: tf.Tensor) -> list[tf.Operation]:
        counts = Counts(self._replica.index, dropped=[tf.cast(dropped, tf.int64)])
        return [op for part in self._shard.parts for op in part.counted(counts)]
