"""One push as a ps receives it: parcels, rows of tables, progress and state; and the header of a push."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.engine.transport.model_state import PushedState
from ps_train.engine.transport.parcels import Parcel
from ps_train.engine.transport.push_encoding import HEADER_SIZE
from ps_train.engine.transport.row_exchange import RowPush


@dataclasses.dataclass(frozen=True)
class Header:
    """The header of a push, float32 scalars.

    Attributes:
      examples: number of examples that the gradients stand for.
      skipped: number of gradients that were left out because they were not finite.
      torn: not 0 if the gradients' values were read at different versions on different ps (with `detect_torn` only).
    """

    examples: tf.Tensor
    skipped: tf.Tensor
    torn: tf.Tensor


@dataclasses.dataclass(frozen=True)
class ReceivedPush:
    """One push as one ps receives it.

    Attributes:
      ps: index of the ps.
      parcels: the parcels of the push, in order.
      vectors: one vector for each parcel; as they travel until `on_ps`.
      decode: function of the vectors as they travel; returns one for each parcel.
      rows: gradients of the rows of tables on this ps; empty without tables.
      progress: int64 [batches, 3], the places of batches in their shards (`data/shards/shard_batches.py`); empty
        without dynamic sharding.
      state: the model's own state.
      sums: float32 [sums], what the batch adds to the values that all workers add up; empty without them.
      round: int64 [2], the steps that the push stands for, and the batches that were left out of it; empty for a push
        of one step.
      lone_rows: gradients of rows that move when the push arrives, and not with the round.
    """

    ps: int
    parcels: tuple[Parcel, ...]
    vectors: tuple[tf.Tensor, ...]
    decode: Callable[[Sequence[tf.Tensor]], tuple[tf.Tensor, ...]] = tuple
    rows: tuple[RowPush, ...] = ()
    progress: tuple[tf.Tensor, ...] = ()
    state: PushedState = dataclasses.field(default_factory=PushedState)
    sums: tuple[tf.Tensor, ...] = ()
    round: tuple[tf.Tensor, ...] = ()
    lone_rows: tuple[RowPush, ...] = ()

    def on_ps(self) -> ReceivedPush:
        """Returns the push with its tensors on the ps (the device scope of the caller), decoded there."""
        # Identities copy no data.  A control dependency on the original tensors would send a message of its own.
        vectors = self.decode([tf.identity(vector) for vector in self.vectors])
        rows, lone = tuple(some.on_ps() for some in self.rows), tuple(some.on_ps() for some in self.lone_rows)
        progress = tuple(tf.identity(one) for one in self.progress)
        state, sums, round = self.state.on_ps(), tuple(map(tf.identity, self.sums)), tuple(map(tf.identity, self.round))
        return dataclasses.replace(
            self,
            vectors=vectors,
            decode=tuple,
            rows=rows,
            progress=progress,
            state=state,
            sums=sums,
            round=round,
            lone_rows=lone,
        )

    def steps(self) -> Any:
        """Returns the number of steps that the push stands for, an int or an int64 scalar."""
        return self.round[0][0] if self.round else 1

    def skipped(self) -> tf.Tensor:
        """Returns the number of gradients that were left out because they were not finite, int64 scalar."""
        found = tf.cast(self.header().skipped, tf.int64)
        return found + self.round[0][1] if self.round else found

    def is_nothing(self) -> tf.Tensor:
        """Returns whether all batches are empty (bool scalar), because no shard was assigned to the worker."""
        return tf.constant(False) if not self.progress else tf.reduce_all(self.progress[0][:, 0] < 0)

    def masked_by(self, wanted: tf.Tensor) -> ReceivedPush:
        """Returns this push where `wanted` (bool scalar) is true, else a push of zeros, which has no examples."""

        def masked(vector: tf.Tensor) -> tf.Tensor:
            return vector * tf.cast(wanted, vector.dtype)

        rows = tuple(dataclasses.replace(some, gradients=masked(some.gradients)) for some in self.rows)
        return dataclasses.replace(self, vectors=tuple(masked(vector) for vector in self.vectors), rows=rows)

    def tensors(self) -> list[tf.Tensor]:
        """Returns all tensors of the push."""
        rows = [tensor for some in (*self.rows, *self.lone_rows) for tensor in (some.message, some.gradients)]
        return [*self.vectors, *rows, *self.state.vectors, *self.progress, *self.sums, *self.round]

    def gradients(self) -> tuple[dict[str, Any], Header]:
        """Returns, on the ps, slice name to gradient (IndexedSlices for tables) with the masks, and the header."""
        gradients: dict[str, Any]
        gradients, header = unpack(self.parcels, self.vectors)
        for some in self.rows:
            gradients |= some.gradients_by_slice(some.message, some.gradients)
        return gradients, header

    def header(self) -> Header:
        """Returns the header alone, without splitting the vectors."""
        return header_of(self.parcels, self.vectors)


def empty_push(parcel: Parcel) -> np.ndarray[Any, Any]:
    """Returns the vector sent in place of a skipped gradient: zeros, and a 1 in the header's `skipped`."""
    vector = np.zeros(parcel.length, tf.as_dtype(parcel.dtype).as_numpy_dtype)
    if parcel.header:
        vector[parcel.length - HEADER_SIZE + 1] = 1
    return vector


def unpack(parcels: Sequence[Parcel], vectors: Sequence[tf.Tensor]) -> tuple[dict[str, tf.Tensor], Header]:
    """Splits a push's vectors, on the ps, into slice name to gradient and the header."""
    gradients: dict[str, tf.Tensor] = {}
    header = None
    for parcel, vector in zip(parcels, vectors, strict=True):
        found, last = parcel.split(vector)
        if last is not None:
            header = Header(*tf.unstack(last, HEADER_SIZE))
        gradients |= found
    assert header is not None, "every ps that is pushed to gets a header"
    return gradients, header


def header_of(parcels: Sequence[Parcel], vectors: Sequence[tf.Tensor]) -> Header:
    """Returns the header of a push alone, without splitting the vectors."""
    vector = next(vector for parcel, vector in zip(parcels, vectors, strict=True) if parcel.header)
    return Header(*tf.unstack(vector[-HEADER_SIZE:], HEADER_SIZE))
