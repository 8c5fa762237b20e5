"""Synchronous updates: each is the mean, weighted by examples, of one gradient from every replica of its round.

Chen et al. 2016, "Revisiting Distributed Synchronous SGD": with b backup workers a round is complete when all but b
have arrived.  A gradient that arrives later is dropped.  Unlike in TensorFlow's SyncReplicasOptimizer no replica
counts twice: a replica is identified by its index, a gradient by its round.

The replica whose push completes the round makes the update within its own step, so no leader can be missing.  The other
replicas' steps end after the update (`token_gate.py`), so no replica pulls values of another round.  The first
ps decides which replicas belong to a round, and informs the other ps with one small message a step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.updates.counters.run_counters import RunCounters
from ps_train.engine.updates.modes.base import (
    ParameterShard,
    Removal,
    Replica,
    StepLimit,
    StepOps,
    UpdateMode,
    WaitLimit,
)
from ps_train.engine.updates.modes.follower_shard import FollowerShard
from ps_train.engine.updates.modes.sync_rounds import CoordinatorShard
from ps_train.engine.updates.modes.token_gate import NEVER
from ps_train.engine.updates.modes.wait_time import now_on_ps, record
from ps_train.engine.variables.variables import ps_device, zeros_variable

_FAR = (1 << 32) + 1
"""Distance that the round number jumps in a reset, so that no gradient from before matches a later round."""


class Synchronous(UpdateMode):
    """Synchronous updates; the limit is the number of a round's replicas that are not waited for.

    Args:
      may_be_empty: see `UpdateMode`.
      max_steps: no round begins once the global step has reached it.
      backups: the limit at first.
      saves_at_steps: True if checkpoints are at multiples of a step; the round after one begins with the chief.
    """

    lockstep = True
    scaled = True

    def __init__(self, may_be_empty: bool, max_steps: int, backups: int = 0, saves_at_steps: bool = False) -> None:
        super().__init__(may_be_empty)
        self._max_steps, self._backups, self._saves_at_steps = max_steps, backups, saves_at_steps

    def batches_per_update(self, replica: Replica) -> int:
        """Returns the number of batches of a round with all declared replicas but the backups."""
        return max(1, replica.declared - self._backups)

    def read_versions(self, update_counts: list[Any], replica: Replica) -> list[tf.Tensor]:
        """Reads the round of each ps as its version, and the time at which the step starts."""
        self._rounds = []
        for ps in range(len(update_counts)):
            with tf.device(ps_device(ps)):
                self._rounds.append(zeros_variable(f"ps_train/round_{ps}", tf.int64))
        self.started_at = now_on_ps([])
        return super().read_versions(self._rounds, replica)

    def build(
        self,
        shards: list[ParameterShard],
        received: list[ReceivedPush],
        replica: Replica,
        counters: RunCounters,
        limit: WaitLimit,
    ) -> StepOps:
        """Adds the rounds: the ps of the CoordinatorShard decides on a push, and the others follow."""
        pushed = [(shard, push) for shard, push in zip(shards, received, strict=True) if push.parcels]
        allowed, limits = self._allowed(limit)
        first = CoordinatorShard(
            *pushed[0], self._rounds[0], replica, self.may_be_empty, self._max_steps, limit, allowed
        )
        discards = limit.most > 0
        others = [
            FollowerShard(*pair, self._rounds[pair[0].ps], replica, self.may_be_empty, discards) for pair in pushed[1:]
        ]
        train = [first.visit(), *[other.visit(first.push_decision) for other in others]]
        with tf.device(ps_device(0)), tf.control_dependencies(train[:1]):
            step_after = shards[0].update_count.read_value()
        assert self.started_at is not None, "it was read with the versions"
        train.append(record(counters, replica.index, self.started_at, first.pushed_at, now_on_ps(train[:1])))
        removed = v1.placeholder(tf.int64, [], "leaver")
        removed_on_first = first.leave(removed, [shard.ps for shard, _ in pushed[1:]])
        remove = tf.group(removed_on_first, *[other.leave(removed, first.leave_decision) for other in others])
        with tf.device(ps_device(0)):
            next_round = tf.reduce_max(tf.stack([round.read_value() for round in self._rounds])) + _FAR
        return StepOps(
            train,
            step_after,
            removals=[Removal(remove, removed)],
            awaited=[first.awaited()],
            reset=[shard.reset(next_round) for shard in (first, *others)],
            push_counters=[self._rounds[shard.ps] for shard, _ in pushed],
            limits=limits,
        )

    def _allowed(self, limit: WaitLimit) -> tuple[Any, list[StepLimit]]:
        """Makes the global step up to which rounds may be made without the chief, and the operation that changes it.

        Returns None and no limit without backup workers: each round has a gradient of the chief, which saves first.
        """
        if not (self._saves_at_steps and limit.most > 0):
            return None, []
        step = v1.placeholder(tf.int64, [], "allowed_step")
        with tf.device(ps_device(0)):
            allowed = v1.get_variable(
                "ps_train/allowed_step", initializer=np.int64(NEVER), trainable=False, use_resource=True
            )
            return allowed, [StepLimit(allowed.assign(step, read_value=False), step)]
