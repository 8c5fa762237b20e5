"""Asynchronous updates: every gradient is applied when it arrives, whatever the others do.

Dean et al. 2012, "Large Scale Distributed Deep Networks" (Downpour SGD).
"""

from __future__ import annotations

import tensorflow as tf

from ps_train.graph.transport import Arrived, unpack
from ps_train.graph.variables import ps_device
from ps_train.updates.base import Replica, Shard, StepOps, Update


class Asynchronous(Update):
    def build(self, shards: list[Shard], arrived: list[Arrived], replica: Replica) -> StepOps:
        train = []
        for shard, parcels in zip(shards, arrived, strict=True):
            if not parcels.vectors:
                continue
            with tf.device(ps_device(shard.ps)):
                train.append(shard.update(*unpack(parcels.parcels, parcels.vectors), self.may_skip))
        with tf.device(ps_device(0)), tf.control_dependencies(train[:1]):
            step_after = shards[0].clock.read_value()
        return StepOps(train, step_after, reset=[])
