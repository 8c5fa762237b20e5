"""Accumulator of a round's gradients on one ps: one vector for each parcel that replicas push.

Parcels carry gradients multiplied by their number of examples.  Early ones, and gradients of a dtype below 32 bits,
arrive unscaled and are multiplied here.  All gradients are added and divided in their accumulation dtype.
Gradients of table rows are stored as they arrive (`sparse_accumulator.py`), since replicas push different rows.
The accumulator must be used under the ps's mutex.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.transport.parcels import Parcel
from ps_train.engine.transport.received_push import Header, ReceivedPush, unpack
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.updates.modes.sparse_accumulator import SparseAccumulator, StateAccumulator
from ps_train.engine.variables.precision import accumulation_dtype, is_narrow, widen
from ps_train.engine.variables.variables import zeros_variable


class GradientAccumulator:
    """The sum of a round's gradients; make it on the ps's device.

    Args:
      name: name of the variables, unique on that ps.
      received: a push as it arrives on that ps.
      replica: the replica that pushes.
    """

    def __init__(self, name: str, received: ReceivedPush, replica: Replica) -> None:
        self._parcels = received.parcels
        self._totals = [self._total(f"{name}/{number}", parcel) for number, parcel in enumerate(received.parcels)]
        self._rows = [SparseAccumulator(f"{name}/rows", some, replica) for some in received.rows]
        state = [received.state.parcels] if received.state.parcels else []
        self._state = [StateAccumulator(f"{name}/state", parcels) for parcels in state]
        self._steps = [zeros_variable(f"{name}/steps", tf.int64) for _ in received.round]

    def add(self, here: ReceivedPush, only_if: tf.Tensor, first: tf.Tensor) -> tf.Operation:
        """Adds a push; a round's first push replaces the old sums, which copies nothing.

        Args:
          here: the push, on the ps.
          only_if: bool scalar; the push is ignored where it is false.
          first: bool scalar, whether this push is the round's first.
        """
        examples = here.header().examples

        def pairs(are_early: bool) -> list[tuple[Any, tf.Tensor]]:
            every = zip(self._parcels, self._totals, _terms(here), strict=True)
            return [(total, vector) for parcel, total, vector in every if parcel.is_early == are_early]

        def early(stored: Callable[[Any, tf.Tensor], Any], otherwise: Callable[[Any], Any]) -> list[tf.Operation]:
            """Stores the early parcels, if the push stands for any examples; otherwise they may be of any value."""
            if not any(parcel.is_early for parcel in self._parcels):
                return []
            return [
                v1.cond(
                    examples > 0,
                    lambda: tf.group(*[stored(total, vector) for total, vector in pairs(are_early=True)]),
                    lambda: tf.group(*[otherwise(total) for total, _ in pairs(are_early=True)]),
                )
            ]

        def put(total: Any, vector: tf.Tensor) -> tf.Operation:
            return total.assign(vector * tf.cast(examples, vector.dtype), read_value=False)

        def add_to(total: Any, vector: tf.Tensor) -> tf.Operation:
            # One pass in the place of two: total - (-examples) * vector.
            rate = -tf.cast(examples, vector.dtype)
            return tf.raw_ops.ResourceApplyGradientDescent(var=total.handle, alpha=rate, delta=vector)

        def store(first: bool) -> list[tf.Operation]:
            stored, is_valid = list[tf.Operation](), examples > 0
            for rows, pushed in zip(self._rows, here.rows, strict=True):
                stored += rows.add(pushed, is_valid, first)
            for state in self._state:
                stored += state.assign(here.state, is_valid, first)
            for steps in self._steps:
                most = tf.where(is_valid, here.steps(), 0)
                stored.append(steps.assign(most if first else tf.maximum(steps.read_value(), most), read_value=False))
            return stored

        def replace() -> tf.Operation:
            plain = [total.assign(vector, read_value=False) for total, vector in pairs(are_early=False)]
            return tf.group(*plain, *early(put, _clear), *store(True))

        def add() -> tf.Operation:
            plain = [total.assign_add(vector, read_value=False) for total, vector in pairs(are_early=False)]
            return tf.group(*plain, *early(add_to, lambda total: tf.no_op()), *store(False))

        return v1.cond(only_if, lambda: v1.cond(first, replace, add), tf.no_op)

    def totals(self) -> list[tf.Tensor]:
        """Returns the sums, one vector for each parcel, with the sums of the headers."""
        return [total.read_value() for total in self._totals]

    def mean(self) -> tuple[dict[str, Any], Header]:
        """Returns slice name to the mean gradient over all examples, IndexedSlices for tables; and the header."""
        totals, header = unpack(self._parcels, self.totals())
        weight = tf.maximum(header.examples, 1.0)
        dtypes = {piece.name: tf.as_dtype(piece.dtype) for parcel in self._parcels for piece in parcel.slices}
        means: dict[str, Any] = {
            name: tf.cast(total / tf.cast(weight, total.dtype), dtypes[name]) for name, total in totals.items()
        }
        for rows in self._rows:
            means |= rows.mean(weight)
        return means, header

    def steps(self) -> Any:
        """Returns the steps that the round stands for: those of its longest push; an int or an int64 scalar."""
        return next((steps.read_value() for steps in self._steps), 1)

    def state(self) -> tuple[dict[str, tf.Tensor], list[tf.Tensor]]:
        """Returns the model's own state of this round.

        Returns:
          Slice name to the value that the model has assigned; and whether there is any (bool scalar), in a list.
        """
        for state in self._state:
            values, is_there = state.values()
            return values, [is_there]
        return {}, []

    @staticmethod
    def _total(name: str, parcel: Parcel) -> Any:
        dtype = accumulation_dtype(tf.as_dtype(parcel.dtype))
        return zeros_variable(name, dtype, [parcel.length])


def _terms(here: ReceivedPush) -> list[tf.Tensor]:
    """Returns the received vectors in their accumulation dtype, all but the early ones times their examples."""
    return [
        widen(vector) * here.header().examples if is_narrow(vector.dtype) and not parcel.is_early else widen(vector)
        for parcel, vector in zip(here.parcels, here.vectors, strict=True)
    ]


def _clear(total: Any) -> tf.Operation:
    return total.assign(tf.zeros(total.shape, total.dtype), read_value=False)
