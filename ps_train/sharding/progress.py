"""Which examples a ps has used: of each shard of the data the cursor that it stands at (`sharding/layout.py`).

    ledger = Ledger(ps=0, shards=64)
    ledger.is_next(ticket)               # under the ps's lock: is the shard where the batch of this ticket begins?
    ledger.advance(ticket, only_if)      # in the same locked part as the update: it is where the batch ends

So an example counts as used exactly where the update that used it is in the variables, and whoever pushes what was
pushed before, or not in turn, changes nothing, whoever he takes himself for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.placement.variables import ps_device

_NO_SHARD = -1


class ShardProgress:
    """Of one ps.

    Attributes:
      progress: int64 [shards], variable.
    """

    def __init__(self, ps: int, shards: int) -> None:
        self._ps = ps
        with tf.device(ps_device(ps)):
            self.progress = _zeros(f"ps_train/progress_{ps}", [shards])

    def is_next(self, ticket: tf.Tensor) -> tf.Tensor:
        """Bool scalar; false for the ticket of a batch that stands for nothing."""
        return (ticket[0] >= 0) & tf.equal(self.progress.read_value()[tf.maximum(ticket[0], 0)], ticket[1])

    def advance(self, ticket: tf.Tensor, only_if: tf.Tensor) -> tf.Operation:
        """`only_if` (bool scalar) must have been computed from `is_next`."""

        def do() -> tf.Operation:
            return self.progress.scatter_nd_update([[ticket[0]]], [ticket[2]]).op

        return v1.cond(only_if, lambda: tf.group(do()), tf.no_op)

    def advance_all(self, tickets: tf.Tensor) -> tf.Operation:
        """Of int64 [n, 3] those that have a shard."""
        some = tf.boolean_mask(tickets, tickets[:, 0] >= 0)
        return self.progress.scatter_nd_update(some[:, :1], some[:, 2]).op


class RoundProgress:
    """What the replicas of a round of synchronous updates have brought: it is used when the round is.

    Make it on the ps's device; `index` is the replica's, of so many.
    """

    def __init__(self, ledger: ShardProgress, ps: int, index: int, replicas: int) -> None:
        self._ledger, self._me = ledger, np.arange(replicas)[:, np.newaxis] == index
        self._none = np.full([replicas, 3], _NO_SHARD, np.int64)
        self._tickets = v1.get_variable(
            f"ps_train/tickets_{ps}", initializer=self._none, trainable=False, use_resource=True
        )

    def accepts(self, ticket: tf.Tensor) -> tf.Tensor:
        """Whether its examples are to be used in this round: they were not, and nobody else has brought them."""
        taken = tf.reduce_any(tf.equal(self._tickets.read_value()[:, 0], ticket[0]))
        return self._ledger.is_next(ticket) & ~taken

    def add(self, ticket: tf.Tensor, only_if: tf.Tensor) -> tf.Operation:
        """`only_if` must have been computed from `accepts`."""
        kept = self._tickets.read_value()
        return self._tickets.assign(tf.where(self._me & only_if, ticket, kept), read_value=False)

    def discard(self, ticket: tf.Tensor, only_if: tf.Tensor) -> tf.Operation:
        """Its examples are left out for good."""
        return self._ledger.advance(ticket, only_if)

    def finish(self) -> tf.Operation:
        """The round is over: what was brought has been used."""
        tickets = self._tickets.read_value()
        with tf.control_dependencies([tickets]):
            return tf.group(self._ledger.advance_all(tickets), self.clear())

    def clear(self) -> tf.Operation:
        return self._tickets.assign(self._none, read_value=False)


def _zeros(name: str, shape: list[int]) -> Any:
    return v1.get_variable(name, shape, tf.int64, v1.zeros_initializer(), trainable=False, use_resource=True)
