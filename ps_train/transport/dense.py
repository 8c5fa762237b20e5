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

from ps_train.gradients.precision import is_narrow
from ps_train.placement.plan import Plan, Slice
from ps_train.placement.trace import ModelVariables
from ps_train.placement.variables import ps_device
from ps_train.tables.row_exchange import RowPush
from ps_train.transport.model_state import PushedState
from ps_train.transport.parcels import Parcel, pack, with_header
from ps_train.transport.sparse_mask import mask_name, mask_slice

_EXACT_FLOAT32 = 1 << 24
"""Whole numbers below this one survive as float32."""


BEGUN = "ps_train_begun"
"""Begins the name of the operation before which a step takes no batch; see `begun.py`."""


@dataclasses.dataclass(frozen=True)
class Header:
    """What every push says of itself, float32 scalars.

    Attributes:
      examples: how many examples the gradients stand for.
      skipped: how many gradients were left out because they were no finite numbers.
      torn: like `examples` if the values that they were computed from were read at different steps on different ps,
        else 0.  Only where `Transport.pull` was asked to find out.
      lost: 1 if the push was lost on its way (`faults/drop_push.py`), else 0.
    """

    examples: tf.Tensor
    skipped: tf.Tensor
    torn: tf.Tensor
    lost: tf.Tensor


HEADER_SIZE = 4


@dataclasses.dataclass(frozen=True)
class ReceivedPush:
    """What one push brought to one ps: a vector for each parcel, in order, and what it has to do with tables there;
    the model's state; and where shards of the data are handed out the batch's ticket (`sharding/batches.py`)."""

    ps: int
    parcels: tuple[Parcel, ...]
    vectors: tuple[tf.Tensor, ...]
    rows: RowPush | None = None
    progress: tf.Tensor | None = None
    state: PushedState = dataclasses.field(default_factory=PushedState)

    def on_ps(self) -> ReceivedPush:
        """Copies of the names, not of the data, on the ps (the device scope of the caller).  To wait for the vectors
        themselves would send a message of its own."""
        vectors = tuple(tf.identity(vector) for vector in self.vectors)
        rows = self.rows and dataclasses.replace(self.rows, gradients=tf.identity(self.rows.gradients))
        progress = None if self.progress is None else tf.identity(self.progress)
        return dataclasses.replace(self, vectors=vectors, rows=rows, progress=progress, state=self.state.on_ps())

    def is_nothing(self) -> tf.Tensor:
        """Whether the ticket is that of a batch where nothing was given."""
        assert self.progress is not None, "shards are handed out"
        return self.progress[0] < 0

    def masked_by(self, wanted: tf.Tensor) -> ReceivedPush:
        """The same, or where it is not wanted (bool scalar) what stands for no examples."""

        def kept(vector: tf.Tensor) -> tf.Tensor:
            return vector * tf.cast(wanted, vector.dtype)

        rows = self.rows and dataclasses.replace(self.rows, gradients=kept(self.rows.gradients))
        return dataclasses.replace(self, vectors=tuple(kept(vector) for vector in self.vectors), rows=rows)

    def tensors(self) -> list[tf.Tensor]:
        rows = [self.rows.message, self.rows.gradients] if self.rows else []
        return [*self.vectors, *rows, *self.state.vectors, *([] if self.progress is None else [self.progress])]

    def gradients(self) -> tuple[dict[str, Any], Header]:
        """On the ps: slice name to gradient, those of tables as IndexedSlices; and what the header says."""
        gradients, header = unpack(self.parcels, self.vectors)
        return gradients | (self.rows.gradients_by_slice() if self.rows else {}), header

    def header(self) -> Header:
        """What the header says, without the rest."""
        return header_of(self.parcels, self.vectors)


class Transport:
    """Pull and push of one replica's step.

    Args:
      variables: slice name to variable.
      compares: whether values that were read at different steps on different ps are to be recognised.
    """

    def __init__(
        self, plan: Plan, traced: ModelVariables, variables: Mapping[str, Any], compares: bool = False
    ) -> None:
        pulled, learned = set(traced.dense_trainable()), set(traced.with_gradient())
        spread = {piece.ps for name in traced.tables() for piece in plan.slices_of(name)}
        self._plan = plan
        self._variables = variables
        self._pulled = [pack([s for s in plan.slices_on(ps) if s.variable in pulled], ps) for ps in range(plan.num_ps)]
        if compares and plan.num_ps > 1:
            read = [bool(some) or ps in spread or ps == 0 for ps, some in enumerate(self._pulled)]
            self._pulled = [with_header(some, ps, 1) if read[ps] else [] for ps, some in enumerate(self._pulled)]
        self._torn: tf.Tensor | None = None
        self._answered: dict[int, tf.Tensor] = {}
        self._shapes = {name: variable.spec.shape for name, variable in traced.variables.items()}
        sparse = set(traced.sparse())
        self._masks = {mask_name(name): [mask_slice(piece) for piece in plan.slices_of(name)] for name in sparse}
        state = set(traced.state())
        self._state: list[tuple[Parcel, ...]] = []
        self.pushed: list[list[Parcel]] = []
        for ps in range(plan.num_ps):
            there = [s for s in plan.slices_on(ps) if s.variable in learned]
            parcels = pack(there + [mask_slice(s) for s in there if s.variable in sparse], ps)
            # Every step is counted on ps 0, even where no slice of the model lives there.
            self._state.append(tuple(pack([s for s in plan.slices_on(ps) if s.variable in state], ps)))
            needed = parcels or ps == 0 or ps in spread or self._state[ps]
            self.pushed.append(with_header(parcels, ps, HEADER_SIZE) if needed else [])

    def pull(self, after: Sequence[tf.Tensor], backups: Mapping[str, Any] | None = None) -> dict[str, tf.Tensor]:
        """All trainable variables' values, whole, on the worker (the device scope of the caller).

        Args:
          after: for each ps a tensor there; values are read only after it.
          backups: slice name to a variable beside it that is given the value that was read.
        """
        pieces: dict[str, tf.Tensor] = {}
        stamps: list[tf.Tensor] = []
        for parcel in (parcel for parcels in self._pulled for parcel in parcels):
            with tf.device(ps_device(parcel.ps)), tf.control_dependencies([after[parcel.ps]]):
                read = {piece.name: self._read(piece, backups) for piece in parcel.slices}
                stamp = tf.cast(after[parcel.ps] % _EXACT_FLOAT32, tf.float32)[tf.newaxis] if parcel.header else None
                vector = parcel.join(read, stamp)
            found, stamp = parcel.split(vector)
            if stamp is not None:
                stamps.append(stamp)
            pieces |= found
            self._answered |= {parcel.ps: next(iter(found.values()))} if found else {}
        if len(stamps) > 1:
            self._torn = tf.reduce_any(tf.not_equal(tf.concat(stamps[1:], 0), stamps[0]))
            self._answered |= {parcel.ps: self._torn for parcels in self._pulled for parcel in parcels}
        whole = {}
        for name in dict.fromkeys(piece.variable for parcels in self._pulled for p in parcels for piece in p.slices):
            parts = [pieces[piece.name] for piece in self._plan.slices_of(name)]
            whole[name] = tf.concat(parts, 0) if len(parts) > 1 else parts[0]
        return whole

    def begun(self, after: Sequence[tf.Tensor], count: Any) -> tf.Operation:
        """Makes an operation on the worker that follows the first answer of every ps that takes part in a step.

        Call it after `pull`, with the same `after`.

        Args:
          count: int64 variable on the worker, to which it adds 1.
        """
        answers = [self._answered.get(ps, after[ps]) for ps, parcels in enumerate(self.pushed) if parcels]
        with tf.control_dependencies([tf.identity(answer) for answer in answers]):
            return tf.group(count.assign_add(1, read_value=False), name=BEGUN)

    def _read(self, piece: Slice, backups: Mapping[str, Any] | None) -> tf.Tensor:
        """A slice's value as a vector, on its ps; not there before its backup is."""
        value = self._variables[piece.name].read_value()
        if backups and piece.name in backups:
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
        rows: Sequence[RowPush | None] = (),
    ) -> list[ReceivedPush]:
        """Sends whole-variable gradients, in slices, to their ps, and the gradients of rows of tables.

        Args:
          gradients: variable name to a dense gradient of the variable's shape; and what `rows.touched` names.
          examples: float32 scalar, how many examples the gradients are the mean of.
          scaled: whether the gradients travel multiplied by `examples`, so that those of several workers can be
            added and divided by the sum of their examples; those of a dtype below 32 bits never do.
          guard: given all vectors on the worker, returns what is to be sent in their place.
          rows: for each ps what `tables.Exchange.push` gives; none where there are no tables.
        """
        pieces: dict[str, tf.Tensor] = {}
        for name, gradient in gradients.items():
            parts = self._masks.get(name) or self._plan.slices_of(name)
            split = tf.split(gradient, [s.shape[0] for s in parts]) if len(parts) > 1 else [gradient]
            pieces |= {s.name: tf.reshape(part, [-1]) for s, part in zip(parts, split, strict=True)}
        parcels = [parcel for some in self.pushed for parcel in some]
        zero = tf.zeros_like(examples)
        torn = zero if self._torn is None else tf.cast(self._torn, examples.dtype)
        header = [tf.ones_like(examples) if scaled else examples, zero, torn, zero]
        scale = examples if scaled else None
        of_rows = [_scaled(some.gradients, scale) for some in rows if some]
        vectors = guard([_vector(parcel, pieces, header, scale) for parcel in parcels] + of_rows)
        dense, sparse = iter(vectors[: len(parcels)]), iter(vectors[len(parcels) :])
        sent = [
            some and dataclasses.replace(some, gradients=next(sparse)) for some in rows or [None] * len(self.pushed)
        ]
        return [
            ReceivedPush(ps, tuple(some), tuple(next(dense) for _ in some), sent[ps])
            for ps, some in enumerate(self.pushed)
        ]

    def push_state(self, values: Mapping[str, tf.Tensor] | None) -> list[PushedState]:
        """Sends the model's state to its ps: for each ps what is sent there.

        Args:
          values: variable name to value; None where this replica does not push it.
        """
        pieces = {name: tf.reshape(value, [-1]) for name, value in (values or {}).items()}
        return [
            PushedState(parcels, tuple(parcel.join(pieces) for parcel in parcels) if values is not None else ())
            for parcels in self._state
        ]


def _scaled(vector: tf.Tensor, scale: tf.Tensor | None) -> tf.Tensor:
    """Multiplies a vector; one of a dtype below 32 bits would overflow, and is multiplied on the ps, in float32
    (`updates/gradient_accumulator.py`)."""
    return vector if scale is None or is_narrow(vector.dtype) else vector * tf.cast(scale, vector.dtype)


def _vector(
    parcel: Parcel, pieces: Mapping[str, tf.Tensor], header: list[tf.Tensor], scale: tf.Tensor | None
) -> tf.Tensor:
    vector = parcel.join(pieces, tf.stack(header) if parcel.header else None)
    return _scaled(vector, scale)


def empty_push(parcel: Parcel) -> np.ndarray[Any, Any]:
    """What travels in place of a gradient that was skipped: zeros, and a one where skipped gradients are counted."""
    vector = np.zeros(parcel.length, tf.as_dtype(parcel.dtype).as_numpy_dtype)
    if parcel.header:
        vector[parcel.length - HEADER_SIZE + 1] = 1
    return vector


def unpack(parcels: Sequence[Parcel], vectors: Sequence[tf.Tensor]) -> tuple[dict[str, tf.Tensor], Header]:
    """On the ps: slice name to gradient, and what the header says."""
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
    """What the header says, without the rest."""
    vector = next(vector for parcel, vector in zip(parcels, vectors, strict=True) if parcel.header)
    return Header(*tf.unstack(vector[-HEADER_SIZE:], HEADER_SIZE))
