"""A session with a call that waits."""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import RepeatingSession, SessionGroup
from tests.support.clusters.servers import POOL


class Waiting:
    """A session whose call `wait` does not end before `end` is called."""

    def __init__(self) -> None:
        target = POOL.take(1)[0].target
        with tf.Graph().as_default() as graph:
            queue = tf.queue.FIFOQueue(10, tf.bool, [()], shared_name="tests/waiting")
            self._dequeue, self._enqueue = queue.dequeue(), queue.enqueue(True)
            self._nothing = tf.constant(1)
        self.group = SessionGroup()
        self.session = RepeatingSession(target, graph, v1.ConfigProto(), self.group)
        self.group.add(self.session)
        self._other = POOL.session(target, graph, v1.ConfigProto())
        self.learned: list[bool] = []

    def wait(self) -> None:
        self.learned.append(bool(self.session.run(self._dequeue)))

    def pass_by(self) -> None:
        self.session.run(self._nothing)

    def end(self) -> None:
        self._other.run(self._enqueue)
