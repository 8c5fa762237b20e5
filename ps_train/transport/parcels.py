"""Parcels: the slices of one ps that travel together, and how they lie in the vector that is sent.

    parcels = with_header(pack(plan.on(0), ps=0), ps=0, size=4)
    vector = parcels[0].join({"w": ..., "b": ...}, header)      # where it is sent from
    values, header = parcels[0].split(vector)                   # where it has arrived

Pure but for `join` and `split`: every process computes the same parcels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf

from ps_train.placement.plan import Slice

ALONE_BYTES = 1 << 20
"""A slice of at least this size is not joined with others."""

PARCEL_BYTES = 4 << 20
"""A parcel is closed when it would grow beyond this: receiving, copying and applying several parcels overlap."""

_ALIGNED_BYTES = 64
"""TensorFlow splits a vector without copying it where every part begins and ends at a multiple of this
(`SplitHasAlignedOutputsInFirstDimension` in its kernel)."""


@dataclasses.dataclass(frozen=True)
class Parcel:
    """Slices of one ps and dtype that travel as one vector, followed by a header of so many elements.

    Slices that fill whole units of _ALIGNED_BYTES come first, so that the receiver need not copy them; the others,
    mostly biases, and the header make up the rest, which is filled up to such a unit.
    """

    ps: int
    dtype: str
    slices: tuple[Slice, ...]
    header: int = 0

    @property
    def sizes(self) -> list[int]:
        """Elements of what lies in the vector one after the other: slices, what fills up, header."""
        pieces = [piece.size for piece in self.slices]
        return pieces + [size for size in (self.padding, self.header) if size]

    @property
    def length(self) -> int:
        return sum(self.sizes)

    @property
    def aligned(self) -> int:
        """How many slices at the beginning fill whole units."""
        return sum(_is_aligned(piece) for piece in self.slices)

    @property
    def padding(self) -> int:
        """How many elements without a meaning lie before the header."""
        if not self.aligned:
            return 0
        unit = _ALIGNED_BYTES // tf.as_dtype(self.dtype).size
        return -(sum(piece.size for piece in self.slices) + self.header) % unit

    def join(self, values: Mapping[str, tf.Tensor], header: tf.Tensor | None = None) -> tf.Tensor:
        """Slice name to its elements, a vector; and a vector for the header.  Of one part nothing is copied."""
        parts = [values[piece.name] for piece in self.slices]
        if self.padding:
            parts.append(tf.zeros([self.padding], self.dtype))
        if header is not None:
            parts.append(header)
        return tf.concat(parts, 0) if len(parts) > 1 else parts[0]

    def split(self, vector: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor | None]:
        """Slice name to its value, in its shape; and the header, if there is one."""
        sizes = self.sizes
        first, rest = sizes[: self.aligned], sizes[self.aligned :]
        parts = _split(vector, [*first, sum(rest)] if rest else first)
        if rest:
            parts += _split(parts.pop(), rest)
        mine = zip(self.slices, parts[: len(self.slices)], strict=True)
        return {piece.name: tf.reshape(part, piece.shape) for piece, part in mine}, parts[-1] if self.header else None


def _split(vector: tf.Tensor, sizes: list[int]) -> list[tf.Tensor]:
    return list(tf.split(vector, sizes)) if len(sizes) > 1 else [vector]


def _is_aligned(piece: Slice) -> bool:
    return piece.bytes > 0 and piece.bytes % _ALIGNED_BYTES == 0  # strings have no size of their own


def pack(slices: Sequence[Slice], ps: int) -> list[Parcel]:
    """The slices of one ps as parcels, in an order that every process computes alike."""
    parcels: list[Parcel] = []
    for dtype in sorted({piece.dtype for piece in slices}):
        together: list[Slice] = []
        for piece in (piece for piece in slices if piece.dtype == dtype):
            if piece.bytes >= ALONE_BYTES:
                parcels.append(Parcel(ps, dtype, (piece,)))
                continue
            if sum(p.bytes for p in together) + piece.bytes > PARCEL_BYTES:
                parcels.append(_parcel(ps, dtype, together))
                together = []
            together.append(piece)
        if together:
            parcels.append(_parcel(ps, dtype, together))
    return parcels


def _parcel(ps: int, dtype: str, slices: list[Slice]) -> Parcel:
    return Parcel(ps, dtype, tuple(sorted(slices, key=_is_aligned, reverse=True)))


def with_header(parcels: list[Parcel], ps: int, size: int) -> list[Parcel]:
    """The same parcels, the first joined float32 one also carrying a header (or one more for it)."""
    for number, parcel in enumerate(parcels):
        if parcel.dtype == "float32" and parcel.slices[0].bytes < ALONE_BYTES:
            return [*parcels[:number], dataclasses.replace(parcel, header=size), *parcels[number + 1 :]]
    return [*parcels, Parcel(ps, "float32", (), header=size)]
