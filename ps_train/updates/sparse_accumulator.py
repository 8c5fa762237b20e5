"""Gradients of rows of a round on one ps: kept as each replica pushed them, until the round is complete.

There is nothing of the size of a table, and nothing is copied: a variable of each replica takes over the tensor that
arrived.  Rows that several replicas have touched are added up by the optimizer.  To be used under the ps's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.tables.row_exchange import RowPush, by_slice
from ps_train.transport.model_state import PushedState
from ps_train.transport.parcels import Parcel
from ps_train.updates.base import Replica


class SparseAccumulator:
    """Make it on the ps's device; `name` is unique on that ps."""

    def __init__(self, name: str, rows: RowPush, replica: Replica) -> None:
        self._slices, self._widths, self._me = rows.slices, rows.widths, np.arange(replica.count) == replica.index
        self._index = replica.index
        self._messages = [self._variable(f"{name}/message_{i}", tf.int32) for i in range(replica.count)]
        self._gradients = [self._variable(f"{name}/gradients_{i}", tf.float32) for i in range(replica.count)]
        # Which of them are of this round.  (To clear those that are not would assign values of a known shape, which
        # TensorFlow 2.21's constant folding then takes for the shape of whatever is read afterwards.)
        self._valid = v1.get_variable(
            f"{name}/valid", [replica.count], tf.int32, v1.zeros_initializer(), trainable=False, use_resource=True
        )

    def add(self, rows: RowPush, counts: tf.Tensor, first: bool) -> list[tf.Operation]:
        """Keeps what this replica has pushed, if it `counts` (bool scalar), as one of a round, or its first."""
        own = tf.cast(self._me & counts, tf.int32)
        valid = own if first else tf.where(self._me, own, self._valid.read_value())
        return [
            self._messages[self._index].assign(rows.message, read_value=False),
            self._gradients[self._index].assign(rows.gradients, read_value=False),
            self._valid.assign(valid, read_value=False),
        ]

    def mean(self, weight: tf.Tensor) -> dict[str, tf.IndexedSlices]:
        """Slice name to the sum of all gradients over `weight`; a row may come more than once."""
        kept = [
            self._cut(message.read_value(), gradients.read_value(), valid)
            for message, gradients, valid in zip(
                self._messages, self._gradients, tf.unstack(self._valid.read_value()), strict=True
            )
        ]
        found = {}
        for name, one in kept[0].items():
            values = tf.concat([some[name].values for some in kept], 0) / weight
            found[name] = tf.IndexedSlices(values, tf.concat([some[name].indices for some in kept], 0), one.dense_shape)
        return found

    def _cut(self, message: tf.Tensor, gradients: tf.Tensor, valid: tf.Tensor) -> dict[str, tf.IndexedSlices]:
        """What a replica has pushed, or nothing where it is not valid (int32 scalar)."""
        if len(self._slices) > 1:
            sizes = message[: len(self._slices)] * valid
            message = tf.concat([sizes, message[len(self._slices) :][: tf.reduce_sum(sizes)]], 0)
        else:
            message = message[: tf.size(message) * valid]
        return by_slice(self._slices, self._widths, message, gradients[: tf.size(gradients) * valid])

    def _variable(self, name: str, dtype: tf.DType) -> Any:
        """Of any length.  (`get_variable` has none.)"""
        return v1.Variable(
            lambda: tf.zeros([len(self._slices)], dtype),
            trainable=False,
            validate_shape=False,
            use_resource=True,
            name=name,
            shape=tf.TensorShape([None]),
        )


class StateAccumulator:
    """The model's state that worker 0 has pushed in a round, until the round is complete.

    Make it on the ps's device; `name` is unique on that ps.
    """

    def __init__(self, name: str, parcels: Sequence[Parcel]) -> None:
        self._parcels = tuple(parcels)
        zeros = v1.zeros_initializer()
        self._vectors = [
            v1.get_variable(
                f"{name}_{number}", [parcel.length], parcel.dtype, zeros, trainable=False, use_resource=True
            )
            for number, parcel in enumerate(parcels)
        ]
        self._valid = v1.get_variable(f"{name}/valid", [], tf.bool, zeros, trainable=False, use_resource=True)

    def assign(self, state: PushedState, counts: tf.Tensor, first: bool) -> list[tf.Operation]:
        """Keeps what has arrived, if it `counts` (bool scalar); the first push of a round forgets the round before."""
        if not state.vectors:
            return [self._valid.assign(False, read_value=False)] if first else []
        pairs = zip(self._vectors, state.vectors, strict=True)
        kept = [variable.assign(vector, read_value=False) for variable, vector in pairs]
        return [*kept, self._valid.assign(counts, read_value=False)]

    def values(self) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Returns slice name to value, and whether they are of this round (bool scalar)."""
        vectors = tuple(vector.read_value() for vector in self._vectors)
        return PushedState(self._parcels, vectors).by_slice(), self._valid.read_value()
