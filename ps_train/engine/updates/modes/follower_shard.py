"""A ps that follows the first ps's decisions about synchronous rounds (`sync_rounds.py`).

A push may reach the first ps and not the others: that replica's next push or its removal lets them go on without it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.modes.base import ParameterShard, Replica
from ps_train.engine.updates.modes.quorum import IN_TIME, LATE, UNKNOWN, Decision, FollowerRoundState
from ps_train.engine.updates.modes.sync_rounds import RoundShard
from ps_train.engine.variables.mutex import with_mutex
from ps_train.engine.variables.variables import ps_device


class FollowerShard(RoundShard):
    """A ps that follows the first ps's decisions."""

    def __init__(
        self,
        shard: ParameterShard,
        received: ReceivedPush,
        round: Any,
        replica: Replica,
        may_be_empty: bool,
        discards: bool,
    ) -> None:
        state = np.array([replica.each(1, 0), [0] * replica.count, [UNKNOWN] * replica.count], np.int64)
        super().__init__(shard, received, round, replica, may_be_empty, state, discards)

    def visit(self, decision: tf.Tensor) -> tf.Operation:
        """Adds the replica's push by the first ps's decision (`push_decision`); ends like the first ps's `visit`."""
        with tf.device(ps_device(self._shard.ps)):
            here, decision = self._received.on_ps(), tf.identity(decision)
            locked, waits = with_mutex(
                self._mutex, [*here.tensors(), decision], lambda: self._visit(here, Decision.of(decision))
            )
            return self._pass(locked, waits)

    def _visit(self, here: ReceivedPush, decision: Decision) -> tuple[list[tf.Operation], tf.Tensor]:
        index, now, state = self._replica.index, self._round.read_value(), self._round_state()
        fresh = tf.equal(now, decision.round) & tf.equal(state.arrived[index], 0)
        in_time, late = tf.equal(decision.outcome, IN_TIME) & fresh, tf.equal(decision.outcome, LATE)
        after, over = state.visit(self._me, in_time, decision.wanted_in(now))
        added, _ = self._accumulate(here, in_time, late, first=~state.has_gradient())
        with tf.control_dependencies(added):
            finish = self._finish(over & after.has_gradient(), self._may_be_empty)
        reached = decision.reached(now, over)
        waits = reached < decision.until
        go_on = self._go_on(finish, reached)
        with tf.control_dependencies([go_on]):  # both write the gate's variable
            wait = self._wait(waits, decision.until)
        return [go_on, self._assign(after.next_if(over)), wait], waits

    def leave(self, removed: tf.Tensor, decision: tf.Tensor) -> tf.Operation:
        """Removes a replica (index, int64 scalar) by the first ps's decision (`leave_decision`)."""
        with tf.device(ps_device(self._shard.ps)):
            removed, decision = tf.identity(removed), tf.identity(decision)
            locked, _ = with_mutex(
                self._mutex, [removed, decision], lambda: self._leave(self._is(removed), Decision.of(decision))
            )
            return locked

    def _leave(self, me: tf.Tensor, decision: Decision) -> tuple[list[tf.Operation], None]:
        now = self._round.read_value()
        after, over = self._round_state().leave(me, decision.wanted_in(now))
        finish = self._finish(over & after.has_gradient(), may_be_empty=True)
        go_on = self._go_on(finish, decision.reached(now, over), me)
        return [go_on, self._assign(after.next_if(over))], None

    def _round_state(self) -> FollowerRoundState:
        return FollowerRoundState(*tf.unstack(self._state.read_value()))

    def _assign(self, state: FollowerRoundState) -> tf.Operation:
        return self._state.assign(tf.stack([state.present, state.arrived, state.wanted]), read_value=False)
