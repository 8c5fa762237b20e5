"""The encoding of what workers pull: a ps encodes a vector, the worker decodes it.

    encoding = CodedPulls(Int8(), seed)
    wire = encoding.on(ps, number).encode(vector, version)      # on the ps
    vector = encoding.decode(wire, length)                      # on the worker

Only float32 is encoded.  Nothing is kept of what an encoding leaves out: the ps has the exact value, and the next pull
begins with it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ps_train.data.pipeline import derived_seed
from ps_train.engine.transport.codecs.codec import Codec
from ps_train.engine.transport.codecs.wire import as_one, from_one, joined, split
from ps_train.engine.transport.parcels import Parcel, narrowed, pack, pack_encoded
from ps_train.engine.variables.plan import Slice


class PullEncoding:
    """The encoding of pulled values; that of this class leaves them as they are.

    Attributes:
      dtype: dtype in which float32 values travel, where they are not encoded otherwise.
    """

    dtype: tf.DType = tf.float32

    def parcels(self, slices: Sequence[Slice], ps: int, is_coded: Callable[[Slice], bool]) -> list[Parcel]:
        """Returns the parcels in which slices of one ps are pulled.

        Args:
          slices: those of this ps.
          ps: index of the ps.
          is_coded: returns True for a slice that may be encoded.
        """
        return pack([narrowed(piece, self.dtype) if is_coded(piece) else piece for piece in slices], ps)

    def on(self, ps: int, number: int | str) -> PullEncoding:
        """Returns the encoding of one of the vectors on one ps, with random choices of its own."""
        return self

    def encode(self, vector: tf.Tensor, version: tf.Tensor) -> tf.Tensor:
        """Encodes a vector into one tensor, on the device of the caller.

        Args:
          vector: float32 [n].
          version: int64 scalar, which changes when the values do.
        """
        return vector

    def decode(self, wire: tf.Tensor, length: int) -> tf.Tensor:
        """Returns the vector, float32 [length]."""
        return wire

    def encode_rows(self, rows: Sequence[tf.Tensor], flags: Sequence[tf.Tensor], version: tf.Tensor) -> tf.Tensor:
        """Joins rows of tables, and flags of ids, into what travels; see `row_exchange.py`."""
        return joined([*rows, *flags])

    def decode_rows(
        self, wire: tf.Tensor, rows: Sequence[Sequence[Any]], flags: Sequence[Sequence[Any]]
    ) -> list[tf.Tensor]:
        """Returns rows and flags of these shapes, float32; in a shape only the first number may be a tensor."""
        return split(wire, [*rows, *flags])


PLAIN = PullEncoding()


class CodedPulls(PullEncoding):
    """Pulled values that a codec encodes.

    Args:
      codec: the codec.
      seed: seed of random choices, the same on all workers: workers that read the same values get the same numbers.
    """

    def __init__(self, codec: Codec, seed: int) -> None:
        self._codec, self._seed = codec, seed

    def parcels(self, slices: Sequence[Slice], ps: int, is_coded: Callable[[Slice], bool]) -> list[Parcel]:
        """Returns the parcels, those of encoded slices first."""
        coded, plain = filter(is_coded, slices), itertools.filterfalse(is_coded, slices)
        return pack_encoded([*coded], ps, self._codec.multiple) + pack([*plain], ps)

    def on(self, ps: int, number: int | str) -> CodedPulls:
        """Returns the encoding of one of the vectors on one ps, with random choices of its own."""
        return type(self)(self._codec, derived_seed(self._seed, ps, number))

    def encode(self, vector: tf.Tensor, version: tf.Tensor) -> tf.Tensor:
        """Encodes a vector."""
        return self._encoded(vector, version, [])

    def decode(self, wire: tf.Tensor, length: int) -> tf.Tensor:
        """Decodes a vector."""
        return self._decoded(wire, length, [])[0]

    def encode_rows(self, rows: Sequence[tf.Tensor], flags: Sequence[tf.Tensor], version: tf.Tensor) -> tf.Tensor:
        """Encodes the rows.  Among the rows of a block, int8 could round a flag away, so flags travel beside them."""
        return self._encoded(joined(rows), version, [tf.cast(joined(flags), tf.uint8)] if flags else [])

    def decode_rows(
        self, wire: tf.Tensor, rows: Sequence[Sequence[Any]], flags: Sequence[Sequence[Any]]
    ) -> list[tf.Tensor]:
        """Decodes the rows."""
        length = tf.add_n([math.prod(shape[1:]) * shape[0] for shape in rows])
        found, *known = self._decoded(wire, length, [tf.uint8] if flags else [])
        return split(found, rows) + [part for some in known for part in split(tf.cast(some, tf.float32), flags)]

    def _encoded(self, vector: tf.Tensor, version: tf.Tensor, beside: Sequence[tf.Tensor]) -> tf.Tensor:
        seed = tf.stack([tf.constant(self._seed, tf.int64), version])
        return as_one([*self._codec.encode(vector, seed), *beside])

    def _decoded(self, wire: tf.Tensor, length: tf.Tensor | int, beside: Sequence[tf.DType]) -> list[tf.Tensor]:
        dtypes = self._codec.dtypes
        parts = from_one(wire, (*dtypes, *beside))
        vector = self._codec.decode(parts[: len(dtypes)], length)
        return [tf.ensure_shape(vector, [length if isinstance(length, int) else None]), *parts[len(dtypes) :]]


class CastPulls(CodedPulls):
    """Pulled values that are rounded to a dtype: a vector travels in it with others of this dtype."""

    parcels = PullEncoding.parcels

    @property
    def dtype(self) -> tf.DType:
        """The dtype."""
        return self._codec.dtypes[0]
