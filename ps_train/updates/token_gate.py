"""Where replicas wait, on a ps, for a number there to grow.

    waiting = turnstile.wait(replica.index, until=round + 1)        # under the ps's lock
    release = turnstile.release(reached=round_now)                  # under the ps's lock, by whoever makes it grow
    passed = turnstile.passed(replica.index, waits, locked)         # outside, the end of a step that has to wait

Everybody has a queue of his own, so that nobody takes what another waits for.  To wait costs no message: the part of
a step that runs on the ps simply does not end yet.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

NEVER = 1 << 62
"""What somebody waits for who does not wait."""


class TokenGate:
    """Make it on the ps's device; `name` is unique on that ps."""

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
        # Unbounded: who releases holds the lock, and must not wait for room.
        self._queues = [tf.queue.FIFOQueue(-1, tf.bool, [()], shared_name=f"{name}/{i}") for i in range(replicas)]

    def wait(self, index: int, until: tf.Tensor) -> tf.Operation:
        """Notes that a replica waits until `release` is told that `until` (int64 scalar) is reached."""
        queue = self._queues[index]
        # An earlier process of this replica may have died between its release and its leaving.
        stale = queue.dequeue_many(queue.size())
        with tf.control_dependencies([stale]):
            return self._waiting_for.scatter_nd_update([[index]], [until]).op

    def release(self, reached: tf.Tensor, who: tf.Tensor | None = None) -> tf.Operation:
        """Lets go on whoever waits for no more than `reached`; and those of `who` (bool [replicas]) whatever they wait
        for, even where nothing is known of their waiting: a step of a process that died may still be there."""
        needs = self._waiting_for.read_value()
        go = needs <= reached if who is None else (needs <= reached) | who
        times = tf.unstack(tf.cast(go, tf.int32))
        tokens = [queue.enqueue_many([tf.fill([n], True)]) for queue, n in zip(self._queues, times, strict=True)]
        with tf.control_dependencies([needs]):
            cleared = self._waiting_for.assign(
                tf.where(go, tf.fill([self._replicas], tf.constant(NEVER, tf.int64)), needs), read_value=False
            )
        return tf.group(cleared, *tokens)

    def release_all(self) -> tf.Operation:
        """Lets everybody go."""
        return self.release(tf.constant(-1, tf.int64), tf.ones([self._replicas], tf.bool))

    def wait_for_token(self, index: int, waits: tf.Tensor, locked: tf.Operation) -> tf.Operation:
        """Ends when the replica, if it waits (bool scalar), has been released.

        Args:
          locked: the end of the locked part that called `wait`.  A replica that took a token before would take it from
            under `wait`, which then waited for it with the lock held.
        """
        with tf.control_dependencies([locked]):
            return tf.group(v1.cond(waits, lambda: tf.group(self._queues[index].dequeue()), tf.no_op))
