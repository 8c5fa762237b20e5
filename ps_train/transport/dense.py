"""Pull of values to a worker and push of gradients to a ps, in a few parcels instead of one message a variable.

    transport = Transport(plan, model_variables, variables)
    values = transport.pull(after=versions)                     # {"w": tensor on the worker, ...}
    received = transport.push(gradients, examples, ...)         # per ps: the vectors received there

Stock TensorFlow sends every tensor between processes in its own RPC.  Here the small slices of one ps are joined into
one vector there and split again on the worker; gradients the other way round.  Large slices travel alone, because
joining them would only copy them.  One parcel of each push carries a header with the gradients' number of examples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.placement.plan import Plan, Slice
from ps_train.placement.trace import ModelVariables
from ps_train.placement.variables import ps_device
from ps_train.transport.model_state import PushedState
from ps_train.transport.parcels import Parcel, pack, with_header
from ps_train.transport.precision import is_narrow
from ps_train.transport.row_exchange import RowPush
from ps_train.transport.sparse_mask import mask_name, mask_slice

_EXACT_FLOAT32 = 1 << 24
"""Integers below this one are exact in float32."""


BEGUN = "ps_train_begun"
"""Prefix of the name of the operation that a step's batch waits for; see `placement/call_started.py`."""


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


HEADER_SIZE = 3


@dataclasses.dataclass(frozen=True)
class ReceivedPush:
    """One push as one ps receives it.

    Attributes:
      ps: index of the ps.
      parcels: the parcels of the push, in order.
      vectors: one vector for each parcel.
      rows: gradients of the rows of tables on this ps; None without tables.
      progress: int64 [3], the batch's place in its shard (`data/shard_batches.py`); None without dynamic sharding.
      state: the model's own state.
    """

    ps: int
    parcels: tuple[Parcel, ...]
    vectors: tuple[tf.Tensor, ...]
    rows: RowPush | None = None
    progress: tf.Tensor | None = None
    state: PushedState = dataclasses.field(default_factory=PushedState)

    def on_ps(self) -> ReceivedPush:
        """Returns identities of the tensors on the ps (the device scope of the caller), which copy no data."""
        # A control dependency on the original tensors would send a message of its own.
        vectors = tuple(tf.identity(vector) for vector in self.vectors)
        rows = self.rows and dataclasses.replace(self.rows, gradients=tf.identity(self.rows.gradients))
        progress = None if self.progress is None else tf.identity(self.progress)
        return dataclasses.replace(self, vectors=vectors, rows=rows, progress=progress, state=self.state.on_ps())

    def is_nothing(self) -> tf.Tensor:
        """Returns whether the batch is empty (bool scalar), because no shard was assigned to the worker."""
        assert self.progress is not None, "sharding is dynamic"
        return self.progress[0] < 0

    def masked_by(self, wanted: tf.Tensor) -> ReceivedPush:
        """Returns this push where `wanted` (bool scalar) is true, else a push of zeros, which has no examples."""

        def masked(vector: tf.Tensor) -> tf.Tensor:
            return vector * tf.cast(wanted, vector.dtype)

        rows = self.rows and dataclasses.replace(self.rows, gradients=masked(self.rows.gradients))
        return dataclasses.replace(self, vectors=tuple(masked(vector) for vector in self.vectors), rows=rows)

    def tensors(self) -> list[tf.Tensor]:
        """Returns all tensors of the push."""
        rows = [self.rows.message, self.rows.gradients] if self.rows else []
        return [*self.vectors, *rows, *self.state.vectors, *([] if self.progress is None else [self.progress])]

    def gradients(self) -> tuple[dict[str, Any], Header]:
        """Returns, on the ps, slice name to gradient (IndexedSlices for tables) and the header."""
        gradients, header = unpack(self.parcels, self.vectors)
        return gradients | (self.rows.gradients_by_slice() if self.rows else {}), header

    def header(self) -> Header:
        """Returns the header alone, without splitting the vectors."""
        return header_of(self.parcels, self.vectors)


class Transport:
    """Pull and push of one replica's step.

    Args:
      plan: the plan of slices and ps.
      model_variables: the model's variables.
      variables: slice name to variable.
      detect_torn: whether `Header.torn` is computed.

    Attributes:
      pushed: for each ps the parcels that it receives in a push.
    """

    def __init__(
        self, plan: Plan, model_variables: ModelVariables, variables: Mapping[str, Any], detect_torn: bool = False
    ) -> None:
        pulled, with_gradient = set(model_variables.dense_trainable()), set(model_variables.with_gradient())
        table_ps = {piece.ps for name in model_variables.tables() for piece in plan.slices_of(name)}
        self._plan = plan
        self._variables = variables
        self._pulled = [pack([s for s in plan.slices_on(ps) if s.variable in pulled], ps) for ps in range(plan.num_ps)]
        if detect_torn and plan.num_ps > 1:
            read = [bool(some) or ps in table_ps or ps == 0 for ps, some in enumerate(self._pulled)]
            self._pulled = [with_header(some, ps, 1) if read[ps] else [] for ps, some in enumerate(self._pulled)]
        self._torn: tf.Tensor | None = None
        self._first_answers: dict[int, tf.Tensor] = {}
        self._shapes = {name: variable.spec.shape for name, variable in model_variables.variables.items()}
        sparse = set(model_variables.sparse())
        self._masks = {mask_name(name): [mask_slice(piece) for piece in plan.slices_of(name)] for name in sparse}
        state = set(model_variables.state())
        self._state: list[tuple[Parcel, ...]] = []
        self.pushed: list[list[Parcel]] = []
        for ps in range(plan.num_ps):
            there = [s for s in plan.slices_on(ps) if s.variable in with_gradient]
            parcels = pack(there + [mask_slice(s) for s in there if s.variable in sparse], ps)
            # Every step is counted on ps 0, even where no slice of the model lives there.
            self._state.append(tuple(pack([s for s in plan.slices_on(ps) if s.variable in state], ps)))
            needed = parcels or ps == 0 or ps in table_ps or self._state[ps]
            self.pushed.append(with_header(parcels, ps, HEADER_SIZE) if needed else [])

    def pull(self, after: Sequence[tf.Tensor], backups: Mapping[str, Any] | None = None) -> dict[str, tf.Tensor]:
        """Returns variable name to value of all trainable variables, on the worker (the device scope of the caller).

        Args:
          after: for each ps a tensor on that ps; values are read only after it.
          backups: slice name to a variable on the same ps that receives a copy of the read value.
        """
        pieces: dict[str, tf.Tensor] = {}
        versions: list[tf.Tensor] = []
        for parcel in (parcel for parcels in self._pulled for parcel in parcels):
            with tf.device(ps_device(parcel.ps)), tf.control_dependencies([after[parcel.ps]]):
                read = {piece.name: self._read(piece, backups) for piece in parcel.slices}
                version = tf.cast(after[parcel.ps] % _EXACT_FLOAT32, tf.float32)[tf.newaxis] if parcel.header else None
                vector = parcel.join(read, version)
            found, version = parcel.split(vector)
            if version is not None:
                versions.append(version)
            pieces |= found
            self._first_answers |= {parcel.ps: next(iter(found.values()))} if found else {}
        if len(versions) > 1:
            self._torn = tf.reduce_any(tf.not_equal(tf.concat(versions[1:], 0), versions[0]))
            self._first_answers |= {parcel.ps: self._torn for parcels in self._pulled for parcel in parcels}
        whole = {}
        for name in dict.fromkeys(piece.variable for parcels in self._pulled for p in parcels for piece in p.slices):
            parts = [pieces[piece.name] for piece in self._plan.slices_of(name)]
            whole[name] = tf.concat(parts, 0) if len(parts) > 1 else parts[0]
        return whole

    def begun(self, after: Sequence[tf.Tensor], count: Any) -> tf.Operation:
        """Makes an operation on the worker that runs after the first answer of every ps that takes part in a step.

        Call this method after `pull`, with the same `after`.

        Args:
          after: see `pull`.
          count: int64 variable on the worker, to which the operation adds 1.
        """
        answers = [self._first_answers.get(ps, after[ps]) for ps, parcels in enumerate(self.pushed) if parcels]
        with tf.control_dependencies([tf.identity(answer) for answer in answers]):
            return tf.group(count.assign_add(1, read_value=False), name=BEGUN)

    def _read(self, piece: Slice, backups: Mapping[str, Any] | None) -> tf.Tensor:
        """Reads a slice as a vector, on its ps, and copies it to its backup first."""
        value = self._variables[piece.name].read_value()
        if backups and piece.name in backups:
            # The identity carries the dependency, which would vanish with the reshape when that is optimized away.
            with tf.control_dependencies([backups[piece.name].assign(value, read_value=False)]):
                value = tf.identity(value)
        return tf.reshape(value, [-1])

    def push(
        self,
        gradients: Mapping[str, tf.Tensor],
        examples: tf.Tensor,
        scaled: bool,
        guard: Callable[[list[tf.Tensor]], list[tf.Tensor]],
        rows: Sequence[RowPush | None] = (),
    ) -> list[ReceivedPush]:
        """Sends gradients to their ps and returns, for each ps, the push as that ps receives it.

        Args:
          gradients: variable name to a dense gradient of the variable's shape; also the row masks, under the names
            that `sparse_mask.mask_name` returns.
          examples: float32 scalar, number of examples of which the gradients are the mean.
          scaled: multiply the gradients by `examples`.  The ps can then add several workers' gradients and divide by
            the sum of their examples.  Gradients of a dtype below 32 bits are never multiplied here.
          guard: function of all vectors on the worker; returns the vectors to send in their place.
          rows: for each ps the result of `RowExchange.push`; empty without tables.
        """
        pieces: dict[str, tf.Tensor] = {}
        for name, gradient in gradients.items():
            parts = self._masks.get(name) or self._plan.slices_of(name)
            split = tf.split(gradient, [s.shape[0] for s in parts]) if len(parts) > 1 else [gradient]
            pieces |= {s.name: tf.reshape(part, [-1]) for s, part in zip(parts, split, strict=True)}
        parcels = [parcel for some in self.pushed for parcel in some]
        zero = tf.zeros_like(examples)
        torn = zero if self._torn is None else tf.cast(self._torn, examples.dtype)
        header = [tf.ones_like(examples) if scaled else examples, zero, torn]
        scale = examples if scaled else None
        row_vectors = [_scaled(some.gradients, scale) for some in rows if some]
        vectors = guard([_vector(parcel, pieces, header, scale) for parcel in parcels] + row_vectors)
        dense, sparse = iter(vectors[: len(parcels)]), iter(vectors[len(parcels) :])
        sent_rows = [
            some and dataclasses.replace(some, gradients=next(sparse)) for some in rows or [None] * len(self.pushed)
        ]
        return [
            ReceivedPush(ps, tuple(some), tuple(next(dense) for _ in some), sent_rows[ps])
            for ps, some in enumerate(self.pushed)
        ]

    def push_state(self, values: Mapping[str, tf.Tensor] | None) -> list[PushedState]:
        """Sends the model's own state to its ps and returns, for each ps, the part that is sent there.

        Args:
          values: variable name to value; None if this replica does not push its state.
        """
        pieces = {name: tf.reshape(value, [-1]) for name, value in (values or {}).items()}
        return [
            PushedState(parcels, tuple(parcel.join(pieces) for parcel in parcels) if values is not None else ())
            for parcels in self._state
        ]


def _scaled(vector: tf.Tensor, scale: tf.Tensor | None) -> tf.Tensor:
    """Multiplies a vector by `scale`, unless its dtype is below 32 bits.

    Such a vector would overflow.  The ps multiplies it in float32 (`updates/gradient_accumulator.py`).
    """
    return vector if scale is None or is_narrow(vector.dtype) else vector * tf.cast(scale, vector.dtype)


def _vector(
    parcel: Parcel, pieces: Mapping[str, tf.Tensor], header: list[tf.Tensor], scale: tf.Tensor | None
) -> tf.Tensor:
    vector = parcel.join(pieces, tf.stack(header) if parcel.header else None)
    return _scaled(vector, scale)


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
