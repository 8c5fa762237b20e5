"""Accumulator of a round's row gradients on one ps, stored as each replica pushed them until the round is complete.

Nothing has the size of a table and nothing is copied: each replica has a variable that takes over the received tensor.
The optimizer adds up rows that several replicas have touched.  The accumulator must be used under the ps's mutex.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.beside_rows import is_beside
from ps_train.engine.transport.model_state import PushedState
from ps_train.engine.transport.parcels import Parcel
from ps_train.engine.transport.row_exchange import RowPush
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.variables.variables import zeros_variable


class SparseAccumulator:
    """Row gradients of a round; make it on the ps's device.

    Args:
      name: name of the variables, unique on that ps.
      rows: the row gradients of a push.
      replica: the replica that pushes.
    """

    def __init__(self, name: str, rows: RowPush, replica: Replica) -> None:
        self._rows, self._me = rows, np.arange(replica.count) == replica.index
        self._index = replica.index
        self._messages = [self._variable(f"{name}/message_{i}", tf.int32) for i in range(replica.count)]
        self._gradients = [self._variable(f"{name}/gradients_{i}", tf.float32) for i in range(replica.count)]
        # Marks the entries of this round.  Old entries are not cleared: that would assign values of a known shape,
        # which TensorFlow 2.21's constant folding then takes for the shape of all later reads.
        self._valid = zeros_variable(f"{name}/valid", tf.int32, [replica.count])

    def add(self, rows: RowPush, is_valid: tf.Tensor, first: bool) -> list[tf.Operation]:
        """Stores this replica's push.

        Args:
          rows: the row gradients of the push.
          is_valid: bool scalar; the push counts where it is true.
          first: whether this push is the round's first, which removes the pushes of the round before.
        """
        own = tf.cast(self._me & is_valid, tf.int32)
        valid = own if first else tf.where(self._me, own, self._valid.read_value())
        return [
            self._messages[self._index].assign(rows.message, read_value=False),
            self._gradients[self._index].assign(rows.gradients, read_value=False),
            self._valid.assign(valid, read_value=False),
        ]

    def mean(self, weight: tf.Tensor) -> dict[str, Any]:
        """Returns slice name to the sum of all gradients, divided by `weight`, with what travels beside them.

        A row may occur more than once: a replica may have used it where another has not.
        """
        pushes = [
            self._cut(message.read_value(), gradients.read_value(), valid)
            for message, gradients, valid in zip(
                self._messages, self._gradients, tf.unstack(self._valid.read_value()), strict=True
            )
        ]
        means: dict[str, Any] = {}
        for name, one in pushes[0].items():
            if is_beside(name):
                means[name] = tf.concat([push[name] for push in pushes], 0)
                continue
            values = tf.concat([push[name].values for push in pushes], 0) / weight
            indices = tf.concat([push[name].indices for push in pushes], 0)
            means[name] = tf.IndexedSlices(values, indices, one.dense_shape)
        return means

    def _cut(self, message: tf.Tensor, gradients: tf.Tensor, valid: tf.Tensor) -> dict[str, Any]:
        """Returns a replica's row gradients and masks by slice; empty ones where `valid` (int32 scalar) is 0."""
        count = len(self._rows.slices)
        if count > 1:
            sizes = message[:count] * valid
            message = tf.concat([sizes, message[count:][: tf.reduce_sum(sizes)]], 0)
        else:
            message = message[: tf.size(message) * valid]
        return self._rows.gradients_by_slice(message, gradients[: tf.size(gradients) * valid])

    def _variable(self, name: str, dtype: tf.DType) -> Any:
        """Makes a vector variable of variable length, which `get_variable` cannot make."""
        return v1.Variable(
            lambda: tf.zeros([len(self._rows.slices)], dtype),
            trainable=False,
            validate_shape=False,
            use_resource=True,
            name=name,
            shape=tf.TensorShape([None]),
        )


class StateAccumulator:
    """The model's own state, as worker 0 has pushed it, until the round is complete; make it on the ps's device.

    Args:
      name: name of the variables, unique on that ps.
      parcels: the parcels of the state on that ps.
    """

    def __init__(self, name: str, parcels: Sequence[Parcel]) -> None:
        self._parcels = tuple(parcels)
        self._vectors = [
            zeros_variable(f"{name}_{number}", parcel.dtype, [parcel.length]) for number, parcel in enumerate(parcels)
        ]
        self._valid = zeros_variable(f"{name}/valid", tf.bool)

    def assign(self, state: PushedState, is_valid: tf.Tensor, first: bool) -> list[tf.Operation]:
        """Stores a push's state.

        Args:
          state: the state; without vectors if the replica does not push any.
          is_valid: bool scalar; the state counts where it is true.
          first: whether this push is the round's first, which removes the state of the round before.
        """
        if not state.vectors:
            return [self._valid.assign(False, read_value=False)] if first else []
        pairs = zip(self._vectors, state.vectors, strict=True)
        stored = [variable.assign(vector, read_value=False) for variable, vector in pairs]
        return [*stored, self._valid.assign(is_valid, read_value=False)]

    def values(self) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Returns slice name to value, and whether these values belong to this round (bool scalar)."""
        vectors = tuple(vector.read_value() for vector in self._vectors)
        return PushedState(self._parcels, vectors).by_slice(), self._valid.read_value()
