"""Parcels: slices of one ps that travel together as one vector (a fusion buffer in Horovod, a bucket in DDP).

    parcels = with_header(pack(plan.slices_on(0), ps=0), ps=0, size=4)
    vector = parcels[0].join({"w": ..., "b": ...}, header)      # at the sender
    values, header = parcels[0].split(vector)                   # at the receiver

Every process computes the same parcels.  All functions except `join` and `split` are pure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf

from ps_train.engine.variables.plan import Slice

ALONE_BYTES = 1 << 20
"""Size in bytes from which a slice is not joined with others."""

PARCEL_BYTES = 4 << 20
"""Maximum size of a parcel of several slices: receiving, copying and applying several parcels overlap."""

_ALIGNED_BYTES = 64
"""Alignment at which TensorFlow splits a vector without copying it: every part must begin and end at a multiple of it
(`SplitHasAlignedOutputsInFirstDimension` in its kernel)."""


_LONG = 8
"""A vector is padded to its `multiple` if it is so many times as long."""


@dataclasses.dataclass(frozen=True)
class Parcel:
    """Slices of one ps and dtype that travel as one vector, with an optional header at its end.

    Slices whose size is a multiple of _ALIGNED_BYTES come first, so that the receiver need not copy them.  The other
    slices, mostly biases, and the header follow; padding fills them up to such a multiple.

    Attributes:
      ps: index of the ps.
      dtype: name of the dtype of all slices.
      slices: the slices, in the order in which they lie in the vector.
      header: float32 numbers of the header; 0 without one.  A parcel of 16-bit numbers has two elements for each.
      is_encoded: whether a codec encodes the vector; such a parcel has no header.
      multiple: padding of a long vector, in elements; see `Codec.multiple`.
      is_early: whether it is sent as soon as it is computed, beside the backward pass, before it is known how many
        examples the push stands for.  The header tells that; the ps multiplies the gradients, or ignores them.
    """

    ps: int
    dtype: str
    slices: tuple[Slice, ...]
    header: int = 0
    is_encoded: bool = False
    multiple: int = 1
    is_early: bool = False

    @property
    def sizes(self) -> list[int]:
        """Numbers of elements of the vector's parts, in order: slices, padding, header."""
        pieces = [piece.size for piece in self.slices]
        return pieces + [size for size in (self.padding, self._header_size) if size]

    @property
    def _header_size(self) -> int:
        return self.header * tf.float32.size // tf.as_dtype(self.dtype).size if self.header else 0

    @property
    def length(self) -> int:
        """Number of elements of the vector."""
        return sum(self.sizes)

    @property
    def aligned(self) -> int:
        """Number of slices, all at the beginning, whose size is a multiple of _ALIGNED_BYTES."""
        return sum(_is_aligned(piece) for piece in self.slices)

    @property
    def padding(self) -> int:
        """Number of padding elements before the header."""
        size = sum(piece.size for piece in self.slices) + self._header_size
        if size >= _LONG * self.multiple > _LONG:
            return -size % self.multiple
        return -size % (_ALIGNED_BYTES // tf.as_dtype(self.dtype).size) if self.aligned else 0

    def join(self, values: Mapping[str, tf.Tensor], header: tf.Tensor | None = None) -> tf.Tensor:
        """Joins slices and header into one vector; a single part is not copied.

        Args:
          values: slice name to its elements, a vector.
          header: the header, a float32 vector; None for a parcel without a header.
        """
        parts = [values[piece.name] for piece in self.slices]
        if self.padding:
            parts.append(tf.zeros([self.padding], self.dtype))
        if header is not None:
            parts.append(tf.reshape(tf.bitcast(header, self.dtype), [-1]))
        return tf.concat(parts, 0) if len(parts) > 1 else parts[0]

    def split(self, vector: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
        """Splits a vector into slice name to value, in the slice's shape, and the header (None without one)."""
        sizes = self.sizes
        first, rest = sizes[: self.aligned], sizes[self.aligned :]
        parts = _split(vector, [*first, sum(rest)] if rest else first)
        if rest:
            parts += _split(parts.pop(), rest)
        pairs = zip(self.slices, parts[: len(self.slices)], strict=True)
        header = self._header_of(parts[-1]) if self.header else None
        return {piece.name: tf.reshape(part, piece.shape) for piece, part in pairs}, header

    def _header_of(self, part: tf.Tensor) -> tf.Tensor:
        elements = self._header_size // self.header
        return tf.bitcast(tf.reshape(part, [-1, elements]) if elements > 1 else part, tf.float32)


def _split(vector: tf.Tensor, sizes: list[int]) -> list[tf.Tensor]:
    return list(tf.split(vector, sizes)) if len(sizes) > 1 else [vector]


def _is_aligned(piece: Slice) -> bool:
    return piece.bytes > 0 and piece.bytes % _ALIGNED_BYTES == 0  # strings have no size of their own


def pack(slices: Sequence[Slice], ps: int) -> list[Parcel]:
    """Packs the slices of one ps into parcels, in the same order in every process: the largest is sent first."""
    parcels: list[Parcel] = []
    for dtype in sorted({piece.dtype for piece in slices}):
        joined: list[Slice] = []
        for piece in (piece for piece in slices if piece.dtype == dtype):
            if piece.bytes >= ALONE_BYTES:
                parcels.append(Parcel(ps, dtype, (piece,)))
                continue
            if sum(p.bytes for p in joined) + piece.bytes > PARCEL_BYTES:
                parcels.append(_parcel(ps, dtype, joined))
                joined = []
            joined.append(piece)
        if joined:
            parcels.append(_parcel(ps, dtype, joined))
    return sorted(parcels, key=lambda parcel: sum(piece.bytes for piece in parcel.slices), reverse=True)


def _parcel(ps: int, dtype: str, slices: list[Slice]) -> Parcel:
    return Parcel(ps, dtype, tuple(sorted(slices, key=_is_aligned, reverse=True)))


def pack_encoded(slices: Sequence[Slice], ps: int, multiple: int) -> list[Parcel]:
    """Packs float32 slices of one ps into parcels that a codec encodes."""
    return [dataclasses.replace(parcel, is_encoded=True, multiple=multiple) for parcel in pack(slices, ps)]


def early(parcels: Sequence[Parcel]) -> list[Parcel]:
    """Returns the parcels, with the large ones that can be sent before the rest of a push marked."""
    return [
        dataclasses.replace(parcel, is_early=True)
        if not (parcel.header or parcel.is_encoded) and sum(piece.bytes for piece in parcel.slices) >= ALONE_BYTES
        else parcel
        for parcel in parcels
    ]


def narrowed(piece: Slice, dtype: tf.DType) -> Slice:
    """Returns a slice with another dtype."""
    return dataclasses.replace(piece, dtype=dtype.name, bytes=piece.size * dtype.size)


def with_header(parcels: list[Parcel], ps: int, size: int, dtypes: Sequence[str] = ("float32",)) -> list[Parcel]:
    """Returns the parcels with a header of `size` numbers in the first joined parcel of one of the dtypes.

    Without such a parcel the header travels in an additional one, of float32.  Encoded parcels carry none.
    """
    for number, parcel in enumerate(parcels):
        if parcel.dtype in dtypes and not parcel.is_encoded and parcel.slices[0].bytes < ALONE_BYTES:
            return [*parcels[:number], dataclasses.replace(parcel, header=size), *parcels[number + 1 :]]
    return [*parcels, Parcel(ps, "float32", (), header=size)]
