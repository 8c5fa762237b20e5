"""Synchronous updates: each is the mean, over the examples of all, of one gradient from every replica of its round.

Chen et al. 2016, "Revisiting Distributed Synchronous SGD": with b backup workers a round is complete when all but b
have arrived; a gradient that comes later is dropped.  Unlike TensorFlow's SyncReplicasOptimizer nobody counts twice:
a replica is known by its index, a gradient by its round.

Whoever completes the round makes the update within his own step; there is no leader that could be missing.  The
others' steps end when it is made (`turnstile.py`), so nobody pulls values of a round that he does not belong to.  The
first ps decides who belongs to a round, and tells the others with one small message a step.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.placement.variables import ps_device
from ps_train.transport.dense import ReceivedPush
from ps_train.updates.base import ParameterShard, Replica, StepOps, UpdateMode
from ps_train.updates.sync_rounds import CoordinatorShard, FollowerShard
from ps_train.updates.wait_time import now_on_ps, record

_FAR = (1 << 32) + 1
"""To begin anew the rounds jump so far that no gradient from before is ever taken for one of them."""


class Synchronous(UpdateMode):
    """Args beside those of all modes:
    max_steps: no round is begun when the global step is there.
    backups: how many replicas of a round need not be waited for.
    """

    lockstep = True
    scaled = True

    def __init__(self, may_be_empty: bool, max_steps: int, backups: int = 0) -> None:
        super().__init__(may_be_empty)
        self._max_steps, self._backups = max_steps, backups

    def stamps(self, clocks: list[Any], replica: Replica) -> list[tf.Tensor]:
        self._rounds = []
        for ps in range(len(clocks)):
            with tf.device(ps_device(ps)):
                zero = v1.zeros_initializer()
                self._rounds.append(
                    v1.get_variable(f"ps_train/round_{ps}", [], tf.int64, zero, trainable=False, use_resource=True)
                )
        self._began = now_on_ps([])
        return super().read_versions(self._rounds, replica)

    def build(self, shards: list[ParameterShard], arrived: list[ReceivedPush], replica: Replica) -> StepOps:
        pushed = [(shard, parcels) for shard, parcels in zip(shards, arrived, strict=True) if parcels.parcels]
        first = CoordinatorShard(
            *pushed[0], self._rounds[0], replica, self.may_be_empty, self._max_steps, self._backups
        )
        others = [FollowerShard(*pair, self._rounds[pair[0].ps], replica, self.may_be_empty) for pair in pushed[1:]]
        train = [first.visit(), *[other.visit(first.push_decision) for other in others]]
        counts = shards[0].counts
        assert counts is not None, "they are on ps 0"
        with tf.device(ps_device(0)), tf.control_dependencies(train[:1]):
            step_after = shards[0].update_count.read_value()
        train.append(record(counts, replica.index, self._began, first.pushed_at, now_on_ps(train[:1])))
        leaver = v1.placeholder(tf.int64, [], "leaver")
        goodbye = first.leave(leaver, [shard.ps for shard, _ in pushed[1:]])
        leave = tf.group(goodbye, *[other.leave(leaver, first.leave_decision) for other in others])
        with tf.device(ps_device(0)):
            fresh = tf.reduce_max(tf.stack([round.read_value() for round in self._rounds])) + _FAR
        reset = tf.group(*[side.reset(fresh) for side in (first, *others)])
        marks = [self._rounds[shard.ps] for shard, _ in pushed]
        return StepOps(train, step_after, leave, leaver, first.awaited(), reset, marks)
