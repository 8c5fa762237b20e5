"""Gate on a ps at which replicas wait for a number there to grow.

    waiting = gate.wait(replica.index, until=round + 1)              # under the ps's mutex
    release = gate.release(reached=round_now)                        # under the mutex, in every step
    passed = gate.wait_for_token(replica.index, waits, locked)       # outside: the end of a step that must wait

Every replica has its own token queue, so no replica takes another's token.  Waiting costs no message: the part of a
step that runs on the ps does not end yet.

TensorFlow's queues refuse tokens of a step that is being cancelled.  So a replica counts as waiting until it has its
token, and whoever comes next to the gate releases it.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

NEVER = 1 << 62
"""Sentinel for a replica that is not waiting."""


class TokenGate:
    """A gate with one token queue for each replica; make it on the ps's device.

    Args:
      name: name of its variable and queues, unique on that ps.
      replicas: number of replicas.
    """

    def __init__(self, name: str, replicas: int) -> None:
        self._waiting_for: Any = v1.get_variable(
            f"{name}/needs",
            [replicas],
            tf.int64,
            v1.constant_initializer(NEVER),
            trainable=False,
            use_resource=True,
        )
        self._replicas = replicas
        # Unbounded, because a release runs under the mutex and must not wait for room.
        self._queues = [tf.queue.FIFOQueue(-1, tf.bool, [()], shared_name=f"{name}/{i}") for i in range(replicas)]

    def wait(self, index: int, until: tf.Tensor) -> tf.Operation:
        """Registers a replica as waiting until `release` is called with `until` (int64 scalar) or more."""
        queue = self._queues[index]
        # An earlier process of this replica may have died after its release and before it took its token.
        stale = queue.dequeue_many(queue.size())
        with tf.control_dependencies([stale]):
            return self._waiting_for.scatter_nd_update([[index]], [until]).op

    def release(self, reached: tf.Tensor, forced: tf.Tensor | None = None) -> tf.Operation:
        """Releases the replicas that wait for `reached` or less, and those of `forced` in any case.

        Args:
          reached: int64 scalar, the present number.
          forced: bool [replicas]; they get a token even if they are not registered as waiting, because a step of a
            dead process may still wait.  None: no replica.
        """
        needs = self._waiting_for.read_value()
        go = needs <= reached if forced is None else (needs <= reached) | forced

        def do() -> tf.Operation:
            times = tf.unstack(tf.cast(go, tf.int32))
            tokens = [queue.enqueue_many([tf.fill([n], True)]) for queue, n in zip(self._queues, times, strict=True)]
            with tf.control_dependencies(tokens):
                never = tf.fill([self._replicas], tf.constant(NEVER, tf.int64))
                return tf.group(self._waiting_for.assign(tf.where(go, never, needs), read_value=False))

        return v1.cond(tf.reduce_any(go), do, tf.no_op)

    def release_all(self) -> tf.Operation:
        """Releases every replica."""
        return self.release(tf.constant(-1, tf.int64), tf.ones([self._replicas], tf.bool))

    def wait_for_token(self, index: int, waits: tf.Tensor, locked: tf.Operation) -> tf.Operation:
        """Waits until the replica has been released, if it must wait at all.

        The token is put back for other steps of the replica: one of a lost session may still wait beside the present
        one, where the network has not told the ps that it is lost.  `wait` removes it.

        Args:
          index: the replica's index.
          waits: bool scalar, whether the replica must wait.
          locked: the end of the locked part that called `wait`.  A token taken earlier could be one that `wait` is
            about to remove, and `wait` would then block with the mutex held.
        """
        queue = self._queues[index]
        with tf.control_dependencies([locked]):
            return tf.group(v1.cond(waits, lambda: tf.group(queue.enqueue(queue.dequeue())), tf.no_op))
