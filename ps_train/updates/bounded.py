"""Bounded staleness (stale synchronous parallel): asynchronous updates, but nobody runs too far ahead.

Ho et al. 2013, "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server".  Every replica has a
clock on ps 0, the number of its steps.  It begins step c only when every live replica has made c - s steps: no replica
is ever more than s steps ahead of the slowest.  With s = 0 they go in lock-step, though each update is still made of
one gradient.  A step that must wait ends later (`turnstile.py`), which costs no message.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.placement.mutex import with_mutex
from ps_train.placement.variables import ps_device
from ps_train.transport.dense import ReceivedPush
from ps_train.updates.asynchronous import Asynchronous
from ps_train.updates.base import ParameterShard, Replica, StepOps
from ps_train.updates.token_gate import NEVER, TokenGate
from ps_train.updates.wait_time import now_on_ps, record


@dataclasses.dataclass(frozen=True)
class ReplicaClocks:
    """Steps made by each replica, and 1 for those that are live.  Int64 [replicas]; `me` is true at one of them."""

    live: tf.Tensor
    made: tf.Tensor

    def slowest(self) -> tf.Tensor:
        """Steps made by the slowest live replica; NEVER where there is none."""
        return tf.reduce_min(tf.where(tf.equal(self.live, 1), self.made, tf.fill(tf.shape(self.made), NEVER)))

    def awaited(self, lead: int) -> tf.Tensor:
        """For whom those wait that are ahead by more than `lead`; bool [replicas]."""
        slowest = self.slowest()
        live = tf.equal(self.live, 1)
        return live & tf.equal(self.made, slowest) & tf.reduce_any(live & (self.made > slowest + lead))

    def visit(self, me: tf.Tensor) -> ReplicaClocks:
        """After a step.  Who was not live begins beside the slowest: nobody need wait for what he missed."""
        slowest = self.slowest()
        beside = tf.where(slowest < NEVER, slowest, tf.reduce_max(self.made))
        own = tf.where(tf.equal(self.live, 1), self.made + 1, beside)
        return ReplicaClocks(tf.where(me, tf.ones_like(self.live), self.live), tf.where(me, own, self.made))

    def leave(self, me: tf.Tensor) -> ReplicaClocks:
        return ReplicaClocks(tf.where(me, tf.zeros_like(self.live), self.live), self.made)


class Bounded(Asynchronous):
    """Args beside those of `Asynchronous`:
    lead: how many steps a replica may be ahead of the slowest.
    """

    def __init__(self, lead: int, **asynchronous: Any) -> None:
        super().__init__(**asynchronous)
        self._lead = lead

    def stamps(self, clocks: list[Any], replica: Replica) -> list[tf.Tensor]:
        self._began = now_on_ps([])
        return super().read_versions(clocks, replica)

    def build(self, shards: list[ParameterShard], arrived: list[ReceivedPush], replica: Replica) -> StepOps:
        ops = self._build(shards, arrived, replica, gated=False)  # every step passes _LOCK
        counts = shards[0].counts
        assert counts is not None, "they are on ps 0"
        with tf.device(ps_device(0)):
            self._gate = TokenGate("ps_train/turnstile", replica.count)
            state = np.array([replica.each(1, 0), [0] * replica.count], np.int64)
            self._state = v1.get_variable("ps_train/clocks", initializer=state, trainable=False, use_resource=True)
            # Not before the updates on all ps are made: who sees a clock sees what was done until then.
            locked, waits = with_mutex(_LOCK, ops.train, lambda: self._visit(replica))
            passed = tf.group(locked, self._gate.wait_for_token(replica.index, waits, locked))
            with tf.control_dependencies([passed]):
                step_after = shards[0].update_count.read_value()
            timed = record(counts, replica.index, self._began, now_on_ps(ops.train[:1]), now_on_ps([passed]))
            awaited = self._clocks().awaited(self._lead)
            reset, _ = with_mutex(_LOCK, [], lambda: (self._begin(state), None))
        leaver = v1.placeholder(tf.int64, [], "leaver")
        leave = self._leave(leaver, replica.count)
        gate = _LOCK if len(ops.push_counters) > 1 else None
        resets = tf.group(reset, ops.reset) if ops.reset is not None else reset
        return StepOps([passed, timed], step_after, leave, leaver, awaited, resets, ops.push_counters, gate)

    def _begin(self, state: np.ndarray[Any, Any]) -> list[tf.Operation]:
        return [self._state.assign(state, read_value=False), self._gate.release_all()]

    def _visit(self, replica: Replica) -> tuple[list[tf.Operation], tf.Tensor]:
        before = self._clocks()
        after = before.visit(tf.constant(np.arange(replica.count) == replica.index))
        until = after.made[replica.index] - self._lead
        slowest = after.slowest()
        waits = slowest < until
        wait = v1.cond(waits, lambda: self._gate.wait(replica.index, until), tf.no_op)
        with tf.control_dependencies([wait]):
            release = v1.cond(slowest > before.slowest(), lambda: self._gate.release(slowest), tf.no_op)
        return [self._keep(after), release], waits

    def _leave(self, leaver: tf.Tensor, replicas: int) -> tf.Operation:
        def body() -> tuple[list[tf.Operation], None]:
            me = tf.equal(tf.range(replicas, dtype=tf.int64), here)
            after = self._clocks().leave(me)
            return [self._keep(after), self._gate.release(after.slowest(), me)], None

        with tf.device(ps_device(0)):
            here = tf.identity(leaver)
            locked, _ = with_mutex(_LOCK, [here], body)
            return locked

    def _clocks(self) -> ReplicaClocks:
        return ReplicaClocks(*tf.unstack(self._state.read_value()))

    def _keep(self, clocks: ReplicaClocks) -> tf.Operation:
        return self._state.assign(tf.stack([clocks.live, clocks.made]), read_value=False)


_LOCK = "ps_train_lock/clocks"
