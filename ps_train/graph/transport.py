"""How values reach a worker (pull) and gradients reach a ps (push): few parcels, not one message a variable.

    transport = Transport(plan, traced, variables)
    values = transport.pull(after=stamps)                       # {"w": tensor on the worker, ...}
    arrived = transport.push(gradients, examples, ...)          # per ps: vectors that have arrived there

Stock TensorFlow sends every tensor between processes in an RPC of its own.  Here the small slices of one ps are joined
into one vector there and split again on the worker, and the other way round for gradients; large slices travel alone,
because joining them would only copy them.  A parcel that each ps is pushed also carries a header: how many examples
the gradients stand for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.graph.plan import Plan, Slice
from ps_train.graph.trace import Traced
from ps_train.graph.variables import ps_device

ALONE_BYTES = 1 << 20
"""A slice of at least this size is not joined with others."""

PARCEL_BYTES = 4 << 20
"""A parcel is closed when it would grow beyond this: receiving, copying and applying several parcels overlap."""


@dataclasses.dataclass(frozen=True)
class Parcel:
    """Slices of one ps and dtype that travel as one vector; `header`: followed by a `Header`."""

    ps: int
    dtype: str
    slices: tuple[Slice, ...]
    header: bool = False

    @property
    def sizes(self) -> list[int]:
        return [piece.size for piece in self.slices] + ([HEADER_SIZE] if self.header else [])

    @property
    def length(self) -> int:
        return sum(self.sizes)


@dataclasses.dataclass(frozen=True)
class Header:
    """What every push says of itself, float32 scalars.

    Attributes:
      examples: how many examples the gradients stand for.
      skipped: how many gradients were left out because they were no finite numbers.
    """

    examples: tf.Tensor
    skipped: tf.Tensor


HEADER_SIZE = 2


@dataclasses.dataclass(frozen=True)
class Arrived:
    """What one push brought to one ps: a vector for each parcel, in order."""

    ps: int
    parcels: tuple[Parcel, ...]
    vectors: tuple[tf.Tensor, ...]


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
                parcels.append(Parcel(ps, dtype, tuple(together)))
                together = []
            together.append(piece)
        if together:
            parcels.append(Parcel(ps, dtype, tuple(together)))
    return parcels


def with_header(parcels: list[Parcel], ps: int) -> list[Parcel]:
    """The same parcels, the first joined float32 one also carrying the header (or one more for it)."""
    for number, parcel in enumerate(parcels):
        if parcel.dtype == "float32" and parcel.slices[0].bytes < ALONE_BYTES:
            return [*parcels[:number], dataclasses.replace(parcel, header=True), *parcels[number + 1 :]]
    return [*parcels, Parcel(ps, "float32", (), header=True)]


class Transport:
    """Pull and push of one replica's step.  `variables`: slice name to variable."""

    def __init__(self, plan: Plan, traced: Traced, variables: Mapping[str, Any]) -> None:
        pulled, learned = set(traced.pulled()), set(traced.learned())
        self._plan = plan
        self._variables = variables
        self._pulled = [pack([s for s in plan.on(ps) if s.variable in pulled], ps) for ps in range(plan.num_ps)]
        self._shapes = {name: variable.spec.shape for name, variable in traced.variables.items()}
        self.pushed: list[list[Parcel]] = []
        for ps in range(plan.num_ps):
            parcels = pack([s for s in plan.on(ps) if s.variable in learned], ps)
            # Every step is counted on ps 0, even where no slice of the model lives there.
            self.pushed.append(with_header(parcels, ps) if parcels or ps == 0 else [])

    def pull(self, after: Sequence[tf.Tensor], backups: Mapping[str, Any] | None = None) -> dict[str, tf.Tensor]:
        """All trainable variables' values, whole, on the worker (the device scope of the caller).

        Args:
          after: for each ps a tensor there; values are read only after it.
          backups: slice name to a variable beside it that is given the value that was read.
        """
        pieces: dict[str, tf.Tensor] = {}
        for parcel in (parcel for parcels in self._pulled for parcel in parcels):
            with tf.device(ps_device(parcel.ps)), tf.control_dependencies([after[parcel.ps]]):
                values = [self._read(piece, backups) for piece in parcel.slices]
                vector = tf.concat(values, 0) if len(values) > 1 else values[0]
            parts = tf.split(vector, parcel.sizes) if len(values) > 1 else [vector]
            pieces |= {s.name: tf.reshape(part, s.shape) for s, part in zip(parcel.slices, parts, strict=True)}
        whole = {}
        for name in dict.fromkeys(piece.variable for parcels in self._pulled for p in parcels for piece in p.slices):
            parts = [pieces[piece.name] for piece in self._plan.of(name)]
            whole[name] = tf.concat(parts, 0) if len(parts) > 1 else parts[0]
        return whole

    def _read(self, piece: Slice, backups: Mapping[str, Any] | None) -> tf.Tensor:
        """A slice's value as a vector, on its ps; not there before its backup is."""
        value = self._variables[piece.name].read_value()
        if backups:
            # The identity carries the dependency: a reshape alone would be optimized away, and it with it.
            with tf.control_dependencies([backups[piece.name].assign(value, read_value=False)]):
                value = tf.identity(value)
        return tf.reshape(value, [-1])

    def push(
        self,
        gradients: Mapping[str, tf.Tensor],
        examples: tf.Tensor,
        scaled: bool,
        guard: Callable[[list[tf.Tensor]], list[tf.Tensor]],
    ) -> list[Arrived]:
        """Sends whole-variable gradients, in slices, to their ps.

        Args:
          gradients: variable name to a dense gradient of the variable's shape.
          examples: float32 scalar, how many examples the gradients are the mean of.
          scaled: whether the gradients travel multiplied by `examples`, so that those of several workers can be
            added and divided by the sum of their examples.
          guard: given all vectors on the worker, returns what is to be sent in their place.
        """
        pieces: dict[str, tf.Tensor] = {}
        for name, gradient in gradients.items():
            parts = self._plan.of(name)
            split = tf.split(gradient, [s.shape[0] for s in parts]) if len(parts) > 1 else [gradient]
            pieces |= {s.name: tf.reshape(part, [-1]) for s, part in zip(parts, split, strict=True)}
        parcels = [parcel for some in self.pushed for parcel in some]
        vectors = iter(guard([_vector(parcel, pieces, examples, scaled) for parcel in parcels]))
        return [Arrived(ps, tuple(some), tuple(next(vectors) for _ in some)) for ps, some in enumerate(self.pushed)]


def _vector(parcel: Parcel, pieces: Mapping[str, tf.Tensor], examples: tf.Tensor, scaled: bool) -> tf.Tensor:
    parts = [pieces[piece.name] for piece in parcel.slices]
    if parcel.header:
        parts.append(tf.stack([tf.ones_like(examples) if scaled else examples, tf.zeros_like(examples)]))
    vector = tf.concat(parts, 0) if len(parts) > 1 else parts[0]
    return vector * tf.cast(examples, vector.dtype) if scaled else vector


def nothing(parcel: Parcel) -> np.ndarray[Any, Any]:
    """What travels in place of a gradient that was skipped: zeros, and a one where skipped gradients are counted."""
    vector = np.zeros(parcel.length, tf.as_dtype(parcel.dtype).as_numpy_dtype)
    if parcel.header:
        vector[-1] = 1
    return vector


def unpack(parcels: Sequence[Parcel], vectors: Sequence[tf.Tensor]) -> tuple[dict[str, tf.Tensor], Header]:
    """On the ps: slice name to gradient, and what the header says."""
    gradients: dict[str, tf.Tensor] = {}
    header = None
    for parcel, vector in zip(parcels, vectors, strict=True):
        parts = tf.split(vector, parcel.sizes) if len(parcel.sizes) > 1 else [vector]
        if parcel.header:
            header = Header(*tf.unstack(parts.pop(), HEADER_SIZE))
        gradients |= {s.name: tf.reshape(part, s.shape) for s, part in zip(parcel.slices, parts, strict=True)}
    assert header is not None, "every ps that is pushed to gets a header"
    return gradients, header
