"""Synchronous updates: each is the mean, over the examples of all workers, of one gradient from every worker.

Chen et al. 2016, "Revisiting Distributed Synchronous SGD"; without tokens that one worker could take for another.

Every replica adds its gradient to an accumulator on each ps, once a step.  The leader's own step also takes the sum as
soon as every replica has added to it, applies the mean, and puts one token into the queue of each follower; a
follower's step ends when it finds the token in *its own* queue.  So nobody can pull before the update is made, nobody
can count twice, and there is no RPC that an asynchronous step does not have.  A replica whose input has ended adds
a gradient that weighs nothing.
"""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.graph.transport import Arrived, Parcel, unpack
from ps_train.graph.variables import ps_device
from ps_train.updates.base import Replica, Shard, StepOps, Update

NO_INPUT_LEFT = "no worker has input left"
"""Stands in the error that ends the leader's step when nobody had an example to add."""


_NEVER_STALE = 1 << 62
"""The accumulators' own rule for late gradients is not used: nobody can be late who must wait for every update."""


class Synchronous(Update):
    lockstep = True
    scaled = True

    def build(self, shards: list[Shard], arrived: list[Arrived], replica: Replica) -> StepOps:
        sides = [_Side(s, a.parcels, replica, self.may_skip) for s, a in zip(shards, arrived, strict=True) if a.parcels]
        vectors = [a.vectors for a in arrived if a.parcels]
        add = [side.add(arriving) for side, arriving in zip(sides, vectors, strict=True)]
        if replica.index == 0:
            finish = [side.lead() for side in sides]
            with tf.device(ps_device(0)), tf.control_dependencies(finish[:1]):
                step_after = shards[0].clock.read_value()
        else:
            tokens = [side.follow() for side in sides]
            finish, step_after = [token.op for token in tokens], tokens[0]
        reset = [side.reset(shards[0].clock) for side in sides]
        return StepOps(add + finish, step_after, reset)


class _Side:
    """One ps's side of synchronous updates."""

    def __init__(self, shard: Shard, parcels: tuple[Parcel, ...], replica: Replica, may_skip: bool) -> None:
        self._shard = shard
        self._parcels = parcels
        self._replica = replica
        self._may_skip = may_skip
        with tf.device(ps_device(shard.ps)):
            self._sums = [
                v1.ConditionalAccumulator(
                    tf.as_dtype(parcel.dtype),
                    shape=[parcel.length],
                    shared_name=f"ps_train_sync/ps{shard.ps}/parcel{number}",
                    reduction_type="SUM",
                )
                for number, parcel in enumerate(parcels)
            ]
            self._tokens = [
                tf.queue.FIFOQueue(1, tf.int64, [()], shared_name=f"ps_train_sync/ps{shard.ps}/replica{index}")
                for index in range(replica.count)
            ]

    def add(self, vectors: tuple[tf.Tensor, ...]) -> tf.Operation:
        with tf.device(ps_device(self._shard.ps)):
            sums = zip(self._sums, vectors, strict=True)
            return tf.group(*[total.apply_grad(vector, local_step=_NEVER_STALE) for total, vector in sums])

    def lead(self) -> tf.Operation:
        """Takes the sums when every replica has added, applies the mean and lets the followers go on."""
        with tf.device(ps_device(self._shard.ps)):
            sums, header = unpack(self._parcels, [total.take_grad(self._replica.count) for total in self._sums])
            somebody = tf.debugging.Assert(header.examples + header.skipped > 0, [NO_INPUT_LEFT])
            with tf.control_dependencies([somebody]):
                weight = tf.maximum(header.examples, 1.0)
                means = {name: total / tf.cast(weight, total.dtype) for name, total in sums.items()}
            only_if = header.examples > 0 if self._may_skip else None
            done = [self._shard.update(means, header, only_if)]
            if self._shard.counts is not None:
                skipped = tf.cast(header.skipped, tf.int64)
                done.append(self._shard.counts.skipped.assign_add(skipped, read_value=False))
            with tf.control_dependencies(done):
                now = self._shard.clock.read_value()
                return tf.group(*[queue.enqueue(now) for queue in self._tokens[1:]])

    def follow(self) -> tf.Tensor:
        """The follower's token: the number of updates made, int64 scalar."""
        with tf.device(ps_device(self._shard.ps)):
            return self._tokens[self._replica.index].dequeue()

    def reset(self, global_step: tf.Variable) -> tf.Operation:
        """Sets this ps's clock to the global step."""
        if self._shard.ps == 0:
            return tf.no_op()
        with tf.device(ps_device(self._shard.ps)):
            return self._shard.clock.assign(global_step.read_value(), read_value=False)
