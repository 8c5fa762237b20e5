"""Pull of values to a worker and push of gradients to a ps, in a few parcels instead of one message a variable.

    transport = Transport(plan, model_variables, variables)
    values = transport.pull(after=versions)                     # {"w": tensor on the worker, ...}
    vectors = transport.vectors(gradients, examples, ...)       # what is sent
    received = transport.pushes(vectors)                        # per ps: the vectors received there

Stock TensorFlow sends every tensor between processes in its own RPC.  Here the small slices of one ps are joined into
one vector there and split again on the worker; gradients the other way round.  Large slices travel alone, because
joining them would only copy them.  One parcel of each push carries a header with the gradients' number of examples.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from ps_train.engine.transport.codecs.cast import saturating_cast
from ps_train.engine.transport.parcels import Parcel, early, pack, with_header
from ps_train.engine.transport.pull_encoding import PLAIN, PullEncoding
from ps_train.engine.transport.push_encoding import HEADER_SIZE
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.transport.row_exchange import RowPush
from ps_train.engine.transport.sparse_mask import mask_name, mask_slice
from ps_train.engine.variables.call_started import after_all_started
from ps_train.engine.variables.plan import Plan, Slice
from ps_train.engine.variables.precision import is_narrow
from ps_train.engine.variables.trace import ModelVariables
from ps_train.engine.variables.variables import ps_device

_EXACT_FLOAT32 = 1 << 24
"""Integers below this one are exact in float32."""


BEGUN = "ps_train_begun"
"""Prefix of the name of the operation that a step's batch waits for; see `engine/variables/call_started.py`."""


def all_joined(slices: Sequence[Slice], ps: int) -> list[Parcel]:
    """Returns no parcels of their own: all gradients are joined."""
    return []


class Transport:
    """Pull and push of one replica's step.

    Args:
      plan: the plan of slices and ps.
      model_variables: the model's variables.
      variables: slice name to variable.
      detect_torn: whether `Header.torn` is computed.
      encoding: the encoding of values.
      kept_as: dtype of the values that `pull` returns in the place of float32, if they travel in it.
      layout: function of the slices of a ps with a dense gradient, and the ps; returns the parcels of those that are
        not to be joined with others.
      in_parts: whether large gradients are sent beside the backward pass, where the ps adds pushes up.

    Attributes:
      pushed: for each ps the parcels that it receives in a push.
      pulled: the vectors that `pull` reads on the ps, as they travel.
      torn: whether the pulled values are of several versions, a bool scalar; empty where it is not computed.
    """

    def __init__(
        self,
        plan: Plan,
        model_variables: ModelVariables,
        variables: Mapping[str, Any],
        detect_torn: bool = False,
        encoding: PullEncoding = PLAIN,
        kept_as: tf.DType = tf.float32,
        layout: Callable[[Sequence[Slice], int], list[Parcel]] = all_joined,
        in_parts: bool = False,
    ) -> None:
        self._plan, self._variables, self._encoding, self._kept_as = plan, variables, encoding, kept_as
        self._pulled = self._pack_pulled(model_variables, detect_torn)
        self.torn: list[tf.Tensor] = []
        self.pulled: list[tf.Tensor] = []
        self._first_answers: dict[int, tf.Tensor] = {}
        sparse = set(model_variables.sparse())
        self._masks = {mask_name(name): [mask_slice(piece) for piece in plan.slices_of(name)] for name in sparse}
        with_gradient, table_ps = set(model_variables.with_gradient()), _table_ps(plan, model_variables)
        state_ps = {piece.ps for name in model_variables.state() for piece in plan.slices_of(name)}
        self.pushed: list[list[Parcel]] = []
        for ps in range(plan.num_ps):
            there = [s for s in plan.slices_on(ps) if s.variable in with_gradient]
            apart = layout(there, ps)
            alone = {piece.name for parcel in apart for piece in parcel.slices}
            plain = [s for s in there if s.name not in alone]
            parcels = apart + pack(plain + [mask_slice(s) for s in plain if s.variable in sparse], ps)
            # Every step is counted on ps 0, even where no slice of the model lives there.
            needed = parcels or ps == 0 or ps in table_ps or ps in state_ps
            parcels = with_header(parcels, ps, HEADER_SIZE) if needed else []
            self.pushed.append(early(parcels) if in_parts else parcels)

    def _pack_pulled(self, model_variables: ModelVariables, detect_torn: bool) -> list[list[Parcel]]:
        """Returns for each ps the parcels that a step pulls."""
        names, state = set(model_variables.dense_trainable()), set(model_variables.state())

        def is_coded(piece: Slice) -> bool:
            """Returns False for what the model assigns itself: it adds to it, where rounding would add up."""
            return piece.dtype == "float32" and piece.variable not in state

        plan = self._plan
        slices = [[s for s in plan.slices_on(ps) if s.variable in names] for ps in range(plan.num_ps)]
        pulled = [self._encoding.parcels(some, ps, is_coded) for ps, some in enumerate(slices)]
        if not detect_torn or plan.num_ps == 1:
            return pulled
        table_ps = _table_ps(plan, model_variables)
        return [
            with_header(some, ps, 1, ("float32", self._encoding.dtype.name))
            if some or ps in table_ps or ps == 0
            else []
            for ps, some in enumerate(pulled)
        ]

    def pull(
        self,
        after: Sequence[tf.Tensor],
        received: Callable[[tf.Tensor], tf.Tensor] = lambda vector: vector,
    ) -> dict[str, tf.Tensor]:
        """Returns variable name to value of all trainable variables, on the worker (the device scope of the caller).

        Args:
          after: for each ps a tensor on that ps; values are read only after it.
          received: called on the worker with each vector as it travels; returns the vector to use in its place.
        """
        pieces: dict[str, tf.Tensor] = {}
        versions: list[tf.Tensor] = []
        for number, parcel in enumerate(parcel for parcels in self._pulled for parcel in parcels):
            encoding = self._encoding.on(parcel.ps, number) if parcel.is_encoded else PLAIN
            with tf.device(ps_device(parcel.ps)), tf.control_dependencies([after[parcel.ps]]):
                read = {
                    piece.name: saturating_cast(self._read(piece), tf.as_dtype(parcel.dtype)) for piece in parcel.slices
                }
                version = tf.cast(after[parcel.ps] % _EXACT_FLOAT32, tf.float32)[tf.newaxis] if parcel.header else None
                vector = encoding.encode(parcel.join(read, version), after[parcel.ps])
            self.pulled.append(vector)
            found, version = parcel.split(encoding.decode(received(vector), parcel.length))
            if version is not None:
                versions.append(version)
            pieces |= found
            self._first_answers |= {parcel.ps: next(iter(found.values()))} if found else {}
        if len(versions) > 1:
            self.torn = [tf.reduce_any(tf.not_equal(tf.concat(versions[1:], 0), versions[0]))]
            self._first_answers |= {parcel.ps: self.torn[0] for parcels in self._pulled for parcel in parcels}
        whole = {}
        for name in dict.fromkeys(piece.variable for parcels in self._pulled for p in parcels for piece in p.slices):
            parts = [pieces[piece.name] for piece in self._plan.slices_of(name)]
            value = tf.concat(parts, 0) if len(parts) > 1 else parts[0]
            is_kept = value.dtype == self._encoding.dtype == self._kept_as
            whole[name] = value if is_kept else tf.cast(value, self._dtype_of(name))
        return whole

    def _dtype_of(self, name: str) -> tf.DType:
        return self._variables[self._plan.slices_of(name)[0].name].dtype

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

    def begun_anew(self, count: Any) -> tf.Operation:
        """Makes an operation as `begun` does, for a call that begins with kept values and awaits no pulled ones.

        Args:
          count: see `begun`.
        """
        with tf.control_dependencies(
            [after_all_started(tf.constant(0), [ps for ps, some in enumerate(self.pushed) if some])]
        ):
            return tf.group(count.assign_add(1, read_value=False), name=BEGUN)

    def _read(self, piece: Slice) -> tf.Tensor:
        """Reads a slice as a vector, on its ps."""
        variable = self._variables[piece.name]
        value = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
        return value if len(piece.shape) == 1 else tf.reshape(value, [-1])

    def vectors(
        self,
        gradients: Mapping[str, tf.Tensor],
        examples: tf.Tensor,
        scaled: bool,
        rows: Mapping[int, RowPush] = MappingProxyType({}),
        torn: Sequence[tf.Tensor] = (),
        scaled_rows: bool | None = None,
    ) -> list[tf.Tensor]:
        """Returns the vectors of a push, on the worker: one for each parcel, then the gradients of rows.

        Args:
          gradients: variable name to a dense gradient of the variable's shape; also the row masks, under the names
            that `sparse_mask.mask_name` returns.
          examples: float32 scalar, number of examples of which the gradients are the mean.
          scaled: multiply the gradients by `examples`.  The ps can then add several workers' gradients and divide by
            the sum of their examples.  Early gradients, and those of a dtype below 32 bits, are never multiplied here.
          rows: the result of `RowExchange.push`; empty without tables.
          torn: as `torn` was when the values were pulled.
          scaled_rows: as `scaled`, for the gradients of rows; None: the same.
        """
        pieces: dict[str, tf.Tensor] = {}
        for name, gradient in gradients.items():
            parts = self._masks.get(name) or self._plan.slices_of(name)
            split = tf.split(gradient, [s.shape[0] for s in parts]) if len(parts) > 1 else [gradient]
            pieces |= {s.name: tf.reshape(part, [-1]) for s, part in zip(parts, split, strict=True)}
        header, scale = _header(examples, scaled, torn), examples if scaled else None
        row_scale = examples if (scaled if scaled_rows is None else scaled_rows) else None
        row_vectors = [_scaled(some.gradients, row_scale) for some in rows.values()]
        return [_vector(parcel, pieces, header, scale) for some in self.pushed for parcel in some] + row_vectors

    def pushes(
        self, vectors: Sequence[tf.Tensor], rows: Mapping[int, RowPush] = MappingProxyType({})
    ) -> list[ReceivedPush]:
        """Returns, for each ps, the push as that ps receives it.

        Args:
          vectors: those of `vectors`, or others in their place.
          rows: as in `vectors`.
        """
        left = iter(vectors)
        dense = [tuple(next(left) for _ in some) for some in self.pushed]
        sent = {ps: (dataclasses.replace(some, gradients=next(left)),) for ps, some in rows.items()}
        return [
            ReceivedPush(ps, tuple(parcels), dense[ps], rows=sent.get(ps, ())) for ps, parcels in enumerate(self.pushed)
        ]


def _header(examples: tf.Tensor, scaled: bool, torn: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    zero = tf.zeros_like(examples)
    marks = [tf.cast(one, examples.dtype) for one in torn] or [zero]
    return [tf.ones_like(examples) if scaled else examples, zero, *marks]


def _table_ps(plan: Plan, model_variables: ModelVariables) -> set[int]:
    """Returns the ps that hold slices of tables."""
    return {piece.ps for name in model_variables.tables() for piece in plan.slices_of(name)}


def _scaled(vector: tf.Tensor, scale: tf.Tensor | None) -> tf.Tensor:
    """Multiplies a vector by `scale`, unless its dtype is below 32 bits.

    Such a vector would overflow.  The ps multiplies it in float32 (`engine/updates/modes/gradient_accumulator.py`).
    """
    return vector if scale is None or is_narrow(vector.dtype) else vector * tf.cast(scale, vector.dtype)


def _vector(
    parcel: Parcel, pieces: Mapping[str, tf.Tensor], header: list[tf.Tensor], scale: tf.Tensor | None
) -> tf.Tensor:
    vector = parcel.join(pieces, tf.stack(header) if parcel.header else None)
    return _scaled(vector, None if parcel.is_early else scale)
