"""What a replica's step does on each ps under synchronous updates, and what is done there when a replica leaves.

The first ps decides (`First`), the others are told (`Other`).  All of it happens under the lock of the ps, except that
a step then waits at the turnstile for the end of the round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.placement.call_started import after_all_started
from ps_train.placement.mutex import mutex_of, with_mutex
from ps_train.placement.variables import ps_device
from ps_train.sharding.progress import RoundProgress
from ps_train.transport.dense import ReceivedPush
from ps_train.updates.base import ParameterShard, Replica
from ps_train.updates.gradient_accumulator import GradientAccumulator
from ps_train.updates.quorum import JOINING, LEFT, MEMBER, UNKNOWN, UNWANTED, WANTED, FollowerRoundState, RoundState
from ps_train.updates.token_gate import TokenGate

_IN_TIME, _LATE = 1, 2
"""What becomes of a push: it belongs to its round, or that was over."""


class RoundShard:
    """One ps: the sums of the round, its number, its state, and who waits for its end."""

    def __init__(
        self,
        shard: ParameterShard,
        arrived: ReceivedPush,
        round: Any,
        replica: Replica,
        may_be_empty: bool,
        state: np.ndarray[Any, Any],
    ) -> None:
        self._shard, self._arrived, self._round, self._replica = shard, arrived, round, replica
        self._may_be_empty, self._first_state = may_be_empty, state
        self._me = np.arange(replica.count) == replica.index
        with tf.device(ps_device(shard.ps)):
            self._sums = GradientAccumulator(f"ps_train/sums_{shard.ps}", arrived, replica)
            self._turnstile = TokenGate(f"ps_train/turnstile_{shard.ps}", replica.count)
            self._ledger = RoundProgress(shard.ledger, shard.ps, replica.index, replica.count) if shard.ledger else None
            self._state = v1.get_variable(
                f"ps_train/round_state_{shard.ps}", initializer=state, trainable=False, use_resource=True
            )

    @property
    def _lock(self) -> str:
        return mutex_of(self._shard.ps)

    def _is(self, leaver: tf.Tensor) -> tf.Tensor:
        return tf.equal(tf.range(self._replica.count, dtype=tf.int64), leaver)

    def _finish(self, over: tf.Tensor, update: tf.Tensor | None = None) -> tf.Operation:
        """Where the round is over: makes the update and begins the next round.

        Args:
          update: whether there is anything to update; None: there is.
        """
        guarded = self._may_be_empty or update is not None

        def apply() -> tf.Operation:
            means, header = self._sums.mean()
            state, has_state = self._sums.state()
            only_if = header.examples > 0 if guarded else None
            return self._shard.update(means, header, only_if, state=state, state_if=has_state)

        def do() -> tf.Operation:
            made = [apply() if update is None else v1.cond(update, apply, tf.no_op)]
            with tf.control_dependencies(made + ([self._ledger.finish()] if self._ledger else [])):
                reached = self._round.assign_add(1, read_value=True)
            return self._turnstile.release(tf.identity(reached))

        return v1.cond(over, do, tf.no_op)

    def reset(self, round: tf.Tensor) -> tf.Operation:
        """Begins with that round (int64 scalar) as at the first start."""

        def body() -> tuple[list[tf.Operation], None]:
            begin = [self._round.assign(round, read_value=False), *([self._ledger.clear()] if self._ledger else [])]
            return [
                *begin,
                self._state.assign(self._first_state, read_value=False),
                self._turnstile.release_all(),
            ], None

        with tf.device(ps_device(self._shard.ps)):
            round = tf.identity(round)
            return with_mutex(self._lock, [round], body)[0]

    def _accumulate(
        self, here: ReceivedPush, in_time: tf.Tensor, late: tf.Tensor, first: tf.Tensor
    ) -> tuple[list[tf.Operation], tf.Tensor]:
        """Adds what has arrived to the round, if it is in time.  Where shards of the data are handed out: as nothing,
        if somebody else has used its examples; and late ones are left out for good.  Also whether it was dropped."""
        if self._ledger is None:
            return [self._sums.add(here, in_time, first)], late
        accepted = self._ledger.accepts(here.progress)
        add = self._sums.add(here.masked_by(accepted), in_time, first)
        keep = self._ledger.add(here.progress, accepted & in_time)
        dropped = late | (in_time & ~accepted & ~here.is_nothing())
        return [add, keep, self._ledger.discard(here.progress, accepted & late)], dropped

    def _wait(self, waits: tf.Tensor, until: tf.Tensor) -> tf.Operation:
        return v1.cond(waits, lambda: self._turnstile.wait(self._replica.index, until), tf.no_op)

    def _release_waiting(self, who: tf.Tensor) -> tf.Operation:
        return self._turnstile.release(tf.constant(-1, tf.int64), who)

    def _pass(self, locked: tf.Operation, waits: tf.Tensor) -> tf.Operation:
        return tf.group(locked, self._turnstile.wait_for_token(self._replica.index, waits, locked))


class CoordinatorShard(RoundShard):
    """The ps that decides who belongs to a round.

    Attributes:
      verdict: after `visit`, int64 [2 + replicas] for the other ps: _IN_TIME, _LATE or 0; the round that must have
        begun before the replica goes on; who is WANTED, if this push completed the round.
      pushed_at: after `visit`, when the push had arrived, in seconds.
      farewell: after `leave`, int64 [2 + replicas]: the round now; whether the last one was given up; who is WANTED.
    """

    def __init__(
        self,
        shard: ParameterShard,
        arrived: ReceivedPush,
        round: Any,
        replica: Replica,
        may_be_empty: bool,
        max_steps: int,
        backups: int,
    ) -> None:
        # All who are declared are members from the beginning: no first step is wasted.
        state = np.array([replica.each(MEMBER, LEFT), [0] * replica.count], np.int64)
        super().__init__(shard, arrived, round, replica, may_be_empty, state)
        self._max_steps, self._backups = max_steps, backups

    def visit(self) -> tf.Operation:
        """The push; ends when the round is over, for those that wait for it."""
        with tf.device(ps_device(self._shard.ps)):
            here = self._arrived.on_ps()
            locked, found = with_mutex(self._lock, [*here.tensors(), self._shard.version], lambda: self._visit(here))
            waits, self.push_decision, self.pushed_at = found
            return self._pass(locked, waits)

    def _visit(self, here: ReceivedPush) -> tuple[list[tf.Operation], Any]:
        index, now, roll = self._replica.index, self._round.read_value(), self._round_state()
        header = here.header()
        pushed_at = tf.timestamp()
        is_open = self._shard.update_count.read_value() < self._max_steps
        member = tf.equal(roll.membership[index], MEMBER) & is_open
        current = tf.equal(self._shard.version, now) & tf.equal(header.torn, 0)
        in_time = member & current & tf.equal(roll.arrived[index], 0)
        after, over = roll.visit(self._me, in_time, is_open, self._backups)
        late = member & ~current
        brought, dropped = self._accumulate(here, in_time, late, first=~tf.reduce_any(tf.equal(roll.arrived, 1)))
        with tf.control_dependencies(brought):
            finish = self._finish(over)
        stays = (member & current) | tf.equal(after.membership[index], JOINING)
        until = now + tf.cast(stays, tf.int64)
        waits = stays & ~over
        done = [finish, self._keep(after.next_if(over)), self._wait(waits, until)]
        done += self._count(header, in_time, dropped)
        judged = tf.cast(in_time, tf.int64) * _IN_TIME + tf.cast(late, tf.int64) * _LATE
        verdict = tf.concat([[judged, until], _wanted(over, after)], 0)
        return done, (waits, verdict, pushed_at)

    def leave(self, leaver: tf.Tensor, others: Sequence[int]) -> tf.Operation:
        """Nobody waits for that replica any more, and it waits for nobody.  `others`: the other ps that take part."""
        with tf.device(ps_device(self._shard.ps)):
            leaver = after_all_started(leaver, others)
            locked, self.leave_decision = with_mutex(self._lock, [leaver], lambda: self._leave(self._is(leaver)))
            return locked

    def _leave(self, me: tf.Tensor) -> tuple[list[tf.Operation], tf.Tensor]:
        now = self._round.read_value()
        after, complete, given_up = self._round_state().leave(me, self._backups)
        over = complete | given_up
        with tf.control_dependencies([now]):  # or it might be read when the next round has begun
            finish = self._finish(over, update=complete)
        with tf.control_dependencies([finish]):
            done = [self._keep(after.next_if(over)), self._release_waiting(me)]
        facts = [now + tf.cast(over, tf.int64), tf.cast(given_up, tf.int64)]
        return done, tf.concat([facts, _wanted(complete, after)], 0)

    def awaited(self) -> tf.Tensor:
        with tf.device(ps_device(self._shard.ps)):
            return self._round_state().awaited()

    def _round_state(self) -> RoundState:
        return RoundState(*tf.unstack(self._state.read_value()))

    def _keep(self, roll: RoundState) -> tf.Operation:
        return self._state.assign(tf.stack([roll.membership, roll.arrived]), read_value=False)

    def _count(self, header: Any, in_time: tf.Tensor, dropped: tf.Tensor) -> list[tf.Operation]:
        counts = self._shard.counts
        assert counts is not None, "they are on ps 0, which is the first"
        skipped = tf.where(in_time, tf.cast(header.skipped, tf.int64), 0)
        lost = tf.where(in_time, tf.cast(header.lost, tf.int64), 0)
        return [
            counts.skipped.assign_add(skipped, read_value=False),
            counts.dropped.assign_add(tf.cast(dropped, tf.int64) + lost, read_value=False),
        ]


class FollowerShard(RoundShard):
    """A ps that is told."""

    def __init__(
        self, shard: ParameterShard, arrived: ReceivedPush, round: Any, replica: Replica, may_be_empty: bool
    ) -> None:
        state = np.array([replica.each(1, 0), [0] * replica.count, [UNKNOWN] * replica.count], np.int64)
        super().__init__(shard, arrived, round, replica, may_be_empty, state)

    def visit(self, verdict: tf.Tensor) -> tf.Operation:
        with tf.device(ps_device(self._shard.ps)):
            here, verdict = self._arrived.on_ps(), tf.identity(verdict)
            locked, waits = with_mutex(self._lock, [*here.tensors(), verdict], lambda: self._visit(here, verdict))
            return self._pass(locked, waits)

    def _visit(self, here: ReceivedPush, verdict: tf.Tensor) -> tuple[list[tf.Operation], tf.Tensor]:
        now, told, until = self._round.read_value(), self._round_state(), verdict[1]
        in_time, late = tf.equal(verdict[0], _IN_TIME) & (now < until), tf.equal(verdict[0], _LATE)
        after, over = told.visit(self._me, in_time, verdict[2:])
        brought, _ = self._accumulate(here, in_time, late, first=~tf.reduce_any(tf.equal(told.arrived, 1)))
        with tf.control_dependencies(brought):
            finish = self._finish(over)
        waits = now + tf.cast(over, tf.int64) < until
        with tf.control_dependencies([finish]):  # both write who waits for what
            wait = self._wait(waits, until)
        return [finish, self._keep(after.next_if(over)), wait], waits

    def leave(self, leaver: tf.Tensor, farewell: tf.Tensor) -> tf.Operation:
        with tf.device(ps_device(self._shard.ps)):
            leaver, farewell = tf.identity(leaver), tf.identity(farewell)
            locked, _ = with_mutex(self._lock, [leaver, farewell], lambda: self._leave(self._is(leaver), farewell))
            return locked

    def _leave(self, me: tf.Tensor, farewell: tf.Tensor) -> tuple[list[tf.Operation], None]:
        given_up = tf.equal(farewell[1], 1)
        after, over = self._round_state().leave(me, farewell[2:])
        finish = self._finish(over, update=tf.reduce_any(tf.equal(after.arrived, 1)))
        with tf.control_dependencies([finish]):
            keep = self._keep(after.next_if(over))
            # A round that the first ps gave up has brought nothing here: it is only counted.
            reached = tf.maximum(self._round.read_value(), tf.where(given_up, farewell[0], 0))
            jump = self._round.assign(reached, read_value=False)
        with tf.control_dependencies([jump]):
            release = self._turnstile.release(reached, me)
        return [keep, release], None

    def _round_state(self) -> FollowerRoundState:
        return FollowerRoundState(*tf.unstack(self._state.read_value()))

    def _keep(self, told: FollowerRoundState) -> tf.Operation:
        return self._state.assign(tf.stack([told.present, told.arrived, told.wanted]), read_value=False)


def _wanted(complete: tf.Tensor, roll: RoundState) -> tf.Tensor:
    chosen = tf.where(tf.equal(roll.arrived, 1), tf.constant(WANTED, tf.int64), tf.constant(UNWANTED, tf.int64))
    return tf.where(complete, chosen, tf.fill(tf.shape(chosen), tf.constant(UNKNOWN, tf.int64)))
