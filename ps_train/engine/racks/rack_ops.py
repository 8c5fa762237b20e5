"""The operations of a worker of a rack, and the device on which its workers meet.

ops.rack.prepare(session)                       # a new aggregator
session.run(ops.rack.relay)                     # the aggregator, one round after the other
session.run(ops.rack.leave, {ops.rack.leaver: 2})
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.rack_server import RACK_JOB

RACK_DEVICE = f"/job:{RACK_JOB}/replica:0/task:0/device:CPU:0"


@dataclasses.dataclass(frozen=True)
class RackOps:
    """The operations of a worker of a rack.

    Attributes:
      relay: one round of the rack, which the aggregator runs: pull, publication, wait, push, update.
      relayed_step: int64 scalar, the global step of the values that a relay has published; fetch it with `relay`.
      leave: ends all waiting for the worker of the rank `leaver`, until it makes a step again.
      leaver: int64 scalar placeholder, the rank of a worker in its rack.
      is_published: bool scalar, whether there are values to begin with.
      missing: bool [variables], True for each variable of the rack that has no value.
      initializers: the initializers of these variables.
      reset: begins without values, with all workers as members; ends all waiting.
    """

    relay: list[tf.Operation]
    relayed_step: tf.Tensor
    leave: tf.Operation
    leaver: tf.Tensor
    is_published: tf.Tensor
    missing: tf.Tensor
    initializers: list[tf.Operation]
    reset: tf.Operation

    def prepare(self, session: v1.Session) -> None:
        """Makes the rack ready for its first relay; called by a new aggregator."""
        missing = session.run(self.missing)
        session.run([op for op, gone in zip(self.initializers, missing, strict=True) if gone])
        session.run(self.reset)
