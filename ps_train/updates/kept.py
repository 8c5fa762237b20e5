"""Gradients of rows of a round on one ps: kept as each replica pushed them, until the round is complete.

There is nothing of the size of a table, and nothing is copied: a variable of each replica takes over the tensor that
arrived.  Rows that several replicas have touched are added up by the optimizer.  To be used under the ps's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.graph.plan import Slice
from ps_train.graph.tables import Rows, by_slice
from ps_train.updates.base import Replica


class KeptRows:
    """Make it on the ps's device; `name` is unique on that ps."""

    def __init__(self, name: str, slices: Sequence[Slice], replica: Replica) -> None:
        self._slices, self._replica = slices, replica
        self._messages = [self._variable(f"{name}/message_{i}", self._no_message) for i in range(replica.count)]
        self._gradients = [self._variable(f"{name}/gradients_{i}", _no_gradients) for i in range(replica.count)]

    def keep(self, rows: Rows, counts: tf.Tensor, first: bool) -> list[tf.Operation]:
        """Keeps what this replica has pushed, if it `counts` (bool scalar); the first of a round clears the others'."""
        own = v1.cond(counts, lambda: (rows.message, rows.gradients), lambda: (self._no_message(), _no_gradients()))
        done = []
        for index, pair in enumerate(zip(self._messages, self._gradients, strict=True)):
            if index == self._replica.index:
                done += [variable.assign(value, read_value=False) for variable, value in zip(pair, own, strict=True)]
            elif first:
                done.append(pair[0].assign(self._no_message(), read_value=False))
                done.append(pair[1].assign(_no_gradients(), read_value=False))
        return done

    def over(self, weight: tf.Tensor) -> dict[str, tf.IndexedSlices]:
        """Slice name to the sum of all gradients over `weight`; a row may come more than once."""
        kept = [
            by_slice(self._slices, message.read_value(), gradients.read_value())
            for message, gradients in zip(self._messages, self._gradients, strict=True)
        ]
        found = {}
        for name, one in kept[0].items():
            values = tf.concat([some[name].values for some in kept], 0) / weight
            found[name] = tf.IndexedSlices(values, tf.concat([some[name].indices for some in kept], 0), one.dense_shape)
        return found

    def _no_message(self) -> tf.Tensor:
        return tf.zeros([len(self._slices) if len(self._slices) > 1 else 0], tf.int32)

    @staticmethod
    def _variable(name: str, initial: Any) -> Any:
        """Of any length.  (`get_variable` has none.)"""
        anything = tf.TensorShape([None])
        return v1.Variable(initial, trainable=False, validate_shape=False, use_resource=True, name=name, shape=anything)


def _no_gradients() -> tf.Tensor:
    return tf.zeros([0])
