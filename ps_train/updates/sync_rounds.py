"""The part of a synchronous round on each ps: a replica's push, and a replica's removal.

The first ps decides (`CoordinatorShard`) and the others follow its decisions (`FollowerShard`).  Everything happens
under the ps's mutex, except a step's wait in the gate for the end of the round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.checkpoint.shard_progress import RoundProgress
from ps_train.placement.call_started import after_all_started
from ps_train.placement.mutex import mutex_of, with_mutex
from ps_train.placement.variables import ps_device
from ps_train.transport.received_push import ReceivedPush
from ps_train.updates.base import ParameterShard, Replica
from ps_train.updates.gradient_accumulator import GradientAccumulator
from ps_train.updates.quorum import JOINING, LEFT, MEMBER, UNKNOWN, UNWANTED, WANTED, FollowerRoundState, RoundState
from ps_train.updates.token_gate import TokenGate

_IN_TIME, _LATE = 1, 2
"""Decisions about a push: it belongs to the present round, or its round is over."""


class RoundShard:
    """A round on one ps: its sums, number and state, and the gate at which replicas wait for its end.

    Args:
      shard: the ps's part of the model.
      received: the replica's push, as this ps receives it.
      round: int64 variable on this ps, the number of the round.
      replica: the replica that makes the step.
      may_be_empty: see `UpdateMode`.
      state: int64 [fields, replicas], the state of the first round.
    """

    def __init__(
        self,
        shard: ParameterShard,
        received: ReceivedPush,
        round: Any,
        replica: Replica,
        may_be_empty: bool,
        state: np.ndarray[Any, Any],
    ) -> None:
        self._shard, self._received, self._round, self._replica = shard, received, round, replica
        self._may_be_empty, self._initial_state = may_be_empty, state
        self._me = np.arange(replica.count) == replica.index
        with tf.device(ps_device(shard.ps)):
            self._sums = GradientAccumulator(f"ps_train/sums_{shard.ps}", received, replica)
            self._gate = TokenGate(f"ps_train/turnstile_{shard.ps}", replica.count)
            self._progress = (
                RoundProgress(shard.progress, shard.ps, replica.index, replica.count) if shard.progress else None
            )
            self._state = v1.get_variable(
                f"ps_train/round_state_{shard.ps}", initializer=state, trainable=False, use_resource=True
            )

    @property
    def _mutex(self) -> str:
        return mutex_of(self._shard.ps)

    def _is(self, removed: tf.Tensor) -> tf.Tensor:
        return tf.equal(tf.range(self._replica.count, dtype=tf.int64), removed)

    def _finish(self, over: tf.Tensor, update: tf.Tensor | None = None) -> tf.Operation:
        """Makes the update and begins the next round, where the round is over.

        Args:
          over: bool scalar, whether the round is over.
          update: bool scalar, whether there is a gradient to apply; None: there is always one.
        """
        guarded = self._may_be_empty or update is not None

        def apply() -> tf.Operation:
            means, header = self._sums.mean()
            state, has_state = self._sums.state()
            only_if = header.examples > 0 if guarded else None
            return self._shard.update(means, header, only_if, state=state, state_if=has_state)

        def do() -> tf.Operation:
            updated = [apply() if update is None else v1.cond(update, apply, tf.no_op)]
            with tf.control_dependencies(updated + ([self._progress.finish()] if self._progress else [])):
                reached = self._round.assign_add(1, read_value=True)
            return self._gate.release(tf.identity(reached))

        return v1.cond(over, do, tf.no_op)

    def reset(self, round: tf.Tensor) -> tf.Operation:
        """Begins with that round (int64 scalar) as at the first start."""

        def body() -> tuple[list[tf.Operation], None]:
            begin = [self._round.assign(round, read_value=False), *([self._progress.clear()] if self._progress else [])]
            state = self._state.assign(self._initial_state, read_value=False)
            return [*begin, state, self._gate.release_all()], None

        with tf.device(ps_device(self._shard.ps)):
            round = tf.identity(round)
            return with_mutex(self._mutex, [round], body)[0]

    def _accumulate(
        self, here: ReceivedPush, in_time: tf.Tensor, late: tf.Tensor, first: tf.Tensor
    ) -> tuple[list[tf.Operation], tf.Tensor]:
        """Adds a push to the round, if it is in time.

        With dynamic sharding a push is added as empty if another replica has used its examples.  The examples of a late
        push are then left out for good.

        Returns:
          The operations, and whether the push was dropped (bool scalar).
        """
        if self._progress is None:
            return [self._sums.add(here, in_time, first)], late
        accepted = self._progress.accepts(here.progress)
        add = self._sums.add(here.masked_by(accepted), in_time, first)
        note = self._progress.add(here.progress, accepted & in_time)
        dropped = late | (in_time & ~accepted & ~here.is_nothing())
        return [add, note, self._progress.discard(here.progress, accepted & late)], dropped

    def _wait(self, waits: tf.Tensor, until: tf.Tensor) -> tf.Operation:
        return v1.cond(waits, lambda: self._gate.wait(self._replica.index, until), tf.no_op)

    def _release_waiting(self, replicas: tf.Tensor) -> tf.Operation:
        return self._gate.release(tf.constant(-1, tf.int64), replicas)

    def _pass(self, locked: tf.Operation, waits: tf.Tensor) -> tf.Operation:
        return tf.group(locked, self._gate.wait_for_token(self._replica.index, waits, locked))


class CoordinatorShard(RoundShard):
    """The ps that decides which replicas belong to a round.

    Args:
      shard, received, round, replica, may_be_empty: see `RoundShard`.
      max_steps: no round begins once the global step has reached it.
      backups: number of members that a round does not wait for.

    Attributes:
      push_decision: after `visit`, int64 [2 + replicas] for the other ps: _IN_TIME, _LATE or 0; the round that must
        have begun before the replica goes on; WANTED or UNWANTED for each replica if this push completed the round,
        else UNKNOWN.
      pushed_at: after `visit`, the time at which the push had arrived; float64 scalar, seconds.
      leave_decision: after `leave`, int64 [2 + replicas] for the other ps: the present round; 1 if the last round was
        given up, else 0; WANTED or UNWANTED for each replica if the removal completed the round, else UNKNOWN.
    """

    def __init__(
        self,
        shard: ParameterShard,
        received: ReceivedPush,
        round: Any,
        replica: Replica,
        may_be_empty: bool,
        max_steps: int,
        backups: int,
    ) -> None:
        # All declared replicas are members from the beginning, so no first step is wasted.
        state = np.array([replica.each(MEMBER, LEFT), [0] * replica.count], np.int64)
        super().__init__(shard, received, round, replica, may_be_empty, state)
        self._max_steps, self._backups = max_steps, backups

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
        member = tf.equal(state.membership[index], MEMBER) & is_open
        current = tf.equal(self._shard.version, now) & tf.equal(header.torn, 0)
        in_time = member & current & tf.equal(state.arrived[index], 0)
        after, over = state.visit(self._me, in_time, is_open, self._backups)
        late = member & ~current
        added, dropped = self._accumulate(here, in_time, late, first=~tf.reduce_any(tf.equal(state.arrived, 1)))
        with tf.control_dependencies(added):
            finish = self._finish(over)
        stays = (member & current) | tf.equal(after.membership[index], JOINING)
        until = now + tf.cast(stays, tf.int64)
        waits = stays & ~over
        done = [finish, self._assign(after.next_if(over)), self._wait(waits, until)]
        done += self._count(header, in_time, dropped)
        outcome = tf.cast(in_time, tf.int64) * _IN_TIME + tf.cast(late, tf.int64) * _LATE
        decision = tf.concat([[outcome, until], _wanted(over, after)], 0)
        return done, (waits, decision, pushed_at)

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
        after, complete, given_up = self._round_state().leave(me, self._backups)
        over = complete | given_up
        with tf.control_dependencies([now]):  # otherwise it might be read after the next round has begun
            finish = self._finish(over, update=complete)
        with tf.control_dependencies([finish]):
            done = [self._assign(after.next_if(over)), self._release_waiting(me)]
        facts = [now + tf.cast(over, tf.int64), tf.cast(given_up, tf.int64)]
        return done, tf.concat([facts, _wanted(complete, after)], 0)

    def awaited(self) -> tf.Tensor:
        """Returns the replicas that other replicas wait for; bool [replicas]."""
        with tf.device(ps_device(self._shard.ps)):
            return self._round_state().awaited()

    def _round_state(self) -> RoundState:
        return RoundState(*tf.unstack(self._state.read_value()))

    def _assign(self, state: RoundState) -> tf.Operation:
        return self._state.assign(tf.stack([state.membership, state.arrived]), read_value=False)

    def _count(self, header: Any, in_time: tf.Tensor, dropped: tf.Tensor) -> list[tf.Operation]:
        counters = self._shard.counters
        assert counters is not None, "they are on ps 0, which is the first"
        skipped = tf.where(in_time, tf.cast(header.skipped, tf.int64), 0)
        return [
            counters.skipped.assign_add(skipped, read_value=False),
            counters.dropped.assign_add(tf.cast(dropped, tf.int64), read_value=False),
        ]


class FollowerShard(RoundShard):
    """A ps that follows the first ps's decisions."""

    def __init__(
        self, shard: ParameterShard, received: ReceivedPush, round: Any, replica: Replica, may_be_empty: bool
    ) -> None:
        state = np.array([replica.each(1, 0), [0] * replica.count, [UNKNOWN] * replica.count], np.int64)
        super().__init__(shard, received, round, replica, may_be_empty, state)

    def visit(self, decision: tf.Tensor) -> tf.Operation:
        """Adds the replica's push by the first ps's decision (`push_decision`); ends like the first ps's `visit`."""
        with tf.device(ps_device(self._shard.ps)):
            here, decision = self._received.on_ps(), tf.identity(decision)
            locked, waits = with_mutex(self._mutex, [*here.tensors(), decision], lambda: self._visit(here, decision))
            return self._pass(locked, waits)

    def _visit(self, here: ReceivedPush, decision: tf.Tensor) -> tuple[list[tf.Operation], tf.Tensor]:
        now, state, until = self._round.read_value(), self._round_state(), decision[1]
        in_time, late = tf.equal(decision[0], _IN_TIME) & (now < until), tf.equal(decision[0], _LATE)
        after, over = state.visit(self._me, in_time, decision[2:])
        added, _ = self._accumulate(here, in_time, late, first=~tf.reduce_any(tf.equal(state.arrived, 1)))
        with tf.control_dependencies(added):
            finish = self._finish(over)
        waits = now + tf.cast(over, tf.int64) < until
        with tf.control_dependencies([finish]):  # both write the gate's variable
            wait = self._wait(waits, until)
        return [finish, self._assign(after.next_if(over)), wait], waits

    def leave(self, removed: tf.Tensor, decision: tf.Tensor) -> tf.Operation:
        """Removes a replica (index, int64 scalar) by the first ps's decision (`leave_decision`)."""
        with tf.device(ps_device(self._shard.ps)):
            removed, decision = tf.identity(removed), tf.identity(decision)
            locked, _ = with_mutex(self._mutex, [removed, decision], lambda: self._leave(self._is(removed), decision))
            return locked

    def _leave(self, me: tf.Tensor, decision: tf.Tensor) -> tuple[list[tf.Operation], None]:
        given_up = tf.equal(decision[1], 1)
        after, over = self._round_state().leave(me, decision[2:])
        finish = self._finish(over, update=tf.reduce_any(tf.equal(after.arrived, 1)))
        with tf.control_dependencies([finish]):
            assign = self._assign(after.next_if(over))
            # A round that the first ps gave up has no gradients here, so it is only counted.
            reached = tf.maximum(self._round.read_value(), tf.where(given_up, decision[0], 0))
            jump = self._round.assign(reached, read_value=False)
        with tf.control_dependencies([jump]):
            release = self._gate.release(reached, me)
        return [assign, release], None

    def _round_state(self) -> FollowerRoundState:
        return FollowerRoundState(*tf.unstack(self._state.read_value()))

    def _assign(self, state: FollowerRoundState) -> tf.Operation:
        return self._state.assign(tf.stack([state.present, state.arrived, state.wanted]), read_value=False)


def _wanted(complete: tf.Tensor, state: RoundState) -> tf.Tensor:
    chosen = tf.where(tf.equal(state.arrived, 1), tf.constant(WANTED, tf.int64), tf.constant(UNWANTED, tf.int64))
    return tf.where(complete, chosen, tf.fill(tf.shape(chosen), tf.constant(UNKNOWN, tf.int64)))
