"""What a round's gradients add up to on one ps: one vector for each parcel that replicas push.

Parcels carry gradients multiplied by their number of examples, but of a dtype below 32 bits the gradients themselves:
those are multiplied here, and all of them are added up and divided in their accumulation dtype.
Gradients of rows are not added up but kept as they came (`kept.py`), since no two replicas push those of the same rows.
To be used under the ps's lock.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.gradients.precision import accumulation_dtype, is_narrow, widen
from ps_train.transport.dense import Header, ReceivedPush, unpack
from ps_train.transport.parcels import Parcel
from ps_train.updates.base import Replica
from ps_train.updates.sparse_accumulator import SparseAccumulator, StateAccumulator


class GradientAccumulator:
    """Make it on the ps's device; `name` is unique on that ps."""

    def __init__(self, name: str, arrived: ReceivedPush, replica: Replica) -> None:
        self._parcels = arrived.parcels
        self._totals = [self._total(f"{name}/{number}", parcel) for number, parcel in enumerate(arrived.parcels)]
        self._rows = SparseAccumulator(f"{name}/rows", arrived.rows, replica) if arrived.rows else None
        self._state = StateAccumulator(f"{name}/state", arrived.state.parcels) if arrived.state.parcels else None

    def add(self, here: ReceivedPush, only_if: tf.Tensor, first: tf.Tensor) -> tf.Operation:
        """Adds what has arrived; the first of a round takes the place of what was there, which copies nothing."""

        def both() -> list[tuple[Any, tf.Tensor]]:
            return list(zip(self._totals, _terms(here), strict=True))

        def keep(first: bool) -> list[tf.Operation]:
            kept, counts = [], here.header().examples > 0
            if self._rows is not None and here.rows is not None:
                kept += self._rows.add(here.rows, counts, first)
            if self._state is not None:
                kept += self._state.assign(here.state, counts, first)
            return kept

        def put() -> tf.Operation:
            return tf.group(*[total.assign(vector, read_value=False) for total, vector in both()], *keep(True))

        def add() -> tf.Operation:
            return tf.group(*[total.assign_add(vector, read_value=False) for total, vector in both()], *keep(False))

        return v1.cond(only_if, lambda: v1.cond(first, put, add), tf.no_op)

    def mean(self) -> tuple[dict[str, Any], Header]:
        """Slice name to the mean gradient over all examples, of tables as IndexedSlices; and their header."""
        totals, header = unpack(self._parcels, [total.read_value() for total in self._totals])
        weight = tf.maximum(header.examples, 1.0)
        dtypes = {piece.name: tf.as_dtype(piece.dtype) for parcel in self._parcels for piece in parcel.slices}
        means: dict[str, Any] = {
            name: tf.cast(total / tf.cast(weight, total.dtype), dtypes[name]) for name, total in totals.items()
        }
        return means | (self._rows.mean(weight) if self._rows else {}), header

    def state(self) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
        """Slice name to the value that the model has assigned in this round; and whether there is any (bool scalar)."""
        return self._state.values() if self._state else ({}, None)

    @staticmethod
    def _total(name: str, parcel: Parcel) -> Any:
        dtype = accumulation_dtype(tf.as_dtype(parcel.dtype))
        return v1.get_variable(name, [parcel.length], dtype, v1.zeros_initializer(), trainable=False, use_resource=True)


def _terms(here: ReceivedPush) -> list[tf.Tensor]:
    """The vectors that arrived, multiplied by their number of examples and ready to be added up."""
    return [widen(vector) * here.header().examples if is_narrow(vector.dtype) else vector for vector in here.vectors]
