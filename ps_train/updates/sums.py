"""What a round's gradients add up to on one ps: one vector for each parcel that replicas push.

To be used under the ps's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.graph.transport import Header, Parcel, unpack


class Sums:
    """Make it on the ps's device; `name` is unique on that ps."""

    def __init__(self, name: str, parcels: Sequence[Parcel]) -> None:
        self._parcels = parcels
        self._totals = [self._total(f"{name}/{number}", parcel) for number, parcel in enumerate(parcels)]

    def add(self, vectors: Sequence[tf.Tensor], only_if: tf.Tensor, first: tf.Tensor) -> tf.Operation:
        """Adds what has arrived; the first of a round takes the place of what was there, which copies nothing."""
        both = list(zip(self._totals, vectors, strict=True))

        def put() -> tf.Operation:
            return tf.group(*[total.assign(vector, read_value=False) for total, vector in both])

        def add() -> tf.Operation:
            return tf.group(*[total.assign_add(vector, read_value=False) for total, vector in both])

        return v1.cond(only_if, lambda: v1.cond(first, put, add), tf.no_op)

    def means(self) -> tuple[dict[str, tf.Tensor], Header]:
        """Slice name to the mean gradient over all examples; the header says of how many.

        Parcels carry gradients multiplied by their number of examples."""
        totals, header = unpack(self._parcels, [total.read_value() for total in self._totals])
        weight = tf.maximum(header.examples, 1.0)
        return {name: total / tf.cast(weight, total.dtype) for name, total in totals.items()}, header

    @staticmethod
    def _total(name: str, parcel: Parcel) -> Any:
        dtype = tf.as_dtype(parcel.dtype)
        return v1.get_variable(name, [parcel.length], dtype, v1.zeros_initializer(), trainable=False, use_resource=True)
