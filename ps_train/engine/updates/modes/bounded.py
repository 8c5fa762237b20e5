"""Bounded staleness (stale synchronous parallel): asynchronous updates with a limited lead over the slowest replica.

Ho et al. 2013, "More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server".  Every replica has a
clock on ps 0, the number of its steps.  It begins step c only when every live replica has made c - s steps.  So no
replica is ever more than s steps ahead of the slowest.  With s = 0 replicas go in lockstep, though each update is
still made of one gradient.  A step that must wait ends later (`token_gate.py`), which costs no message.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.counters.run_counters import RunCounters
from ps_train.engine.updates.modes.asynchronous import Asynchronous
from ps_train.engine.updates.modes.base import ParameterShard, Removal, Replica, StepOps, WaitLimit
from ps_train.engine.updates.modes.token_gate import NEVER, TokenGate
from ps_train.engine.updates.modes.wait_time import now_on_ps, record
from ps_train.engine.variables.mutex import with_mutex
from ps_train.engine.variables.variables import ps_device


@dataclasses.dataclass(frozen=True)
class ReplicaClocks:
    """The replicas' clocks.

    The methods' argument `me` is bool [replicas] and true at one replica.

    Attributes:
      live: int64 [replicas], 1 for a live replica, else 0.
      made: int64 [replicas], steps made by each replica.
    """

    live: tf.Tensor
    made: tf.Tensor

    def slowest(self) -> tf.Tensor:
        """Returns the steps made by the slowest live replica; NEVER if no replica is live."""
        return tf.reduce_min(tf.where(tf.equal(self.live, 1), self.made, tf.fill(tf.shape(self.made), NEVER)))

    def awaited(self, lead: int | tf.Tensor) -> tf.Tensor:
        """Returns the replicas (bool [replicas]) that other replicas, more than `lead` steps ahead, wait for."""
        slowest = self.slowest()
        live = tf.equal(self.live, 1)
        return live & tf.equal(self.made, slowest) & tf.reduce_any(live & (self.made > slowest + lead))

    def visit(self, me: tf.Tensor) -> ReplicaClocks:
        """Returns the clocks after a step of replica `me`.

        A replica that was not live starts level with the slowest, so that no replica waits for the steps it missed.
        """
        slowest = self.slowest()
        level = tf.where(slowest < NEVER, slowest, tf.reduce_max(self.made))
        own = tf.where(tf.equal(self.live, 1), self.made + 1, level)
        return ReplicaClocks(tf.where(me, tf.ones_like(self.live), self.live), tf.where(me, own, self.made))

    def leave(self, me: tf.Tensor) -> ReplicaClocks:
        """Returns the clocks after replica `me` has left."""
        return ReplicaClocks(tf.where(me, tf.zeros_like(self.live), self.live), self.made)


class Bounded(Asynchronous):
    """Updates of bounded staleness; the limit is the number of steps that a replica may be ahead of the slowest."""

    def read_versions(self, update_counts: list[Any], replica: Replica) -> list[tf.Tensor]:
        """Reads the versions as `UpdateMode` does, and the time at which the step starts."""
        self.started_at = now_on_ps([])
        return super().read_versions(update_counts, replica)

    def build(
        self,
        shards: list[ParameterShard],
        received: list[ReceivedPush],
        replica: Replica,
        counters: RunCounters,
        limit: WaitLimit,
    ) -> StepOps:
        """Adds updates as `Asynchronous` does, and the gate where a replica that is too far ahead waits."""
        ops = self._build(shards, received, replica, gated=False)  # every step passes _CLOCKS_MUTEX
        with tf.device(ps_device(0)):
            self._gate = TokenGate("ps_train/turnstile", replica.count)
            state = np.array([replica.each(1, 0), [0] * replica.count], np.int64)
            self._state = v1.get_variable("ps_train/clocks", initializer=state, trainable=False, use_resource=True)
            # A clock moves only after the updates on all ps, so that a reader of the clock sees these updates.
            locked, waits = with_mutex(_CLOCKS_MUTEX, ops.train, lambda: self._visit(replica, limit))
            passed = tf.group(locked, self._gate.wait_for_token(replica.index, waits, locked))
            with tf.control_dependencies([passed]):
                step_after = shards[0].update_count.read_value()
            assert self.started_at is not None, "it was read with the versions"
            timed = record(counters, replica.index, self.started_at, now_on_ps(ops.train[:1]), now_on_ps([passed]))
            awaited = self._clocks().awaited(limit.value())
            reset, _ = with_mutex(_CLOCKS_MUTEX, [], lambda: (self._reset(state), None))
        removed = v1.placeholder(tf.int64, [], "leaver")
        removal = Removal(self._remove(removed, replica.count), removed)
        return StepOps(
            [passed, timed],
            step_after,
            removals=[removal],
            awaited=[awaited],
            reset=[reset, *ops.reset],
            push_counters=ops.push_counters,
            step_gate=_CLOCKS_MUTEX if len(ops.push_counters) > 1 else "",
            pauses=[removal],
        )

    def _reset(self, state: np.ndarray[Any, Any]) -> list[tf.Operation]:
        return [self._state.assign(state, read_value=False), self._gate.release_all()]

    def _visit(self, replica: Replica, limit: WaitLimit) -> tuple[list[tf.Operation], tf.Tensor]:
        before = self._clocks()
        after = before.visit(tf.constant(np.arange(replica.count) == replica.index))
        until = after.made[replica.index] - limit.value()
        slowest = after.slowest()
        waits = slowest < until
        wait = v1.cond(waits, lambda: self._gate.wait(replica.index, until), tf.no_op)
        with tf.control_dependencies([wait]):
            release = self._gate.release(slowest)
        return [self._assign(after), release], waits

    def _remove(self, removed: tf.Tensor, replicas: int) -> tf.Operation:
        def body() -> tuple[list[tf.Operation], None]:
            me = tf.equal(tf.range(replicas, dtype=tf.int64), here)
            after = self._clocks().leave(me)
            return [self._assign(after), self._gate.release(after.slowest(), me)], None

        with tf.device(ps_device(0)):
            here = tf.identity(removed)
            locked, _ = with_mutex(_CLOCKS_MUTEX, [here], body)
            return locked

    def _clocks(self) -> ReplicaClocks:
        return ReplicaClocks(*tf.unstack(self._state.read_value()))

    def _assign(self, clocks: ReplicaClocks) -> tf.Operation:
        return self._state.assign(tf.stack([clocks.live, clocks.made]), read_value=False)


_CLOCKS_MUTEX = "ps_train_lock/clocks"
"""Name of the mutex of the replicas' clocks on ps 0; it is also the step gate."""
