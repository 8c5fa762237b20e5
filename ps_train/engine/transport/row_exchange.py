"""The transport of table rows to a worker and of their gradients to the ps.

    exchange = RowExchange(plan, model_variables.tables(), variables)
    found = exchange.pull({"ads": positions}, after=versions)       # rows on the worker, each once
    pushes = exchange.push({"ads": row_gradients}, {})              # one push for each ps

Each ps gets one tensor of row indices, and one tensor each of rows and gradients is sent, for any number of tables and
lookups.  A row is named by its index within its slice, int32.  In an open vocabulary it is named by its id's key, two
int32 for each number of the key.  The indices stay on the ps and serve for the gradients too.  Contents of the tensors,
in the order of the ps's slices:

    message     int32: for several slices the number of int32 of each slice; then row indices or keys
    rows        float32: the rows one after the other, then for each key 1 if its id is known, else 0.  Where rows are
                encoded, a flag is a uint8
    columns     float32, in a pull that asks for them: what belongs to each row beside its values, such as its slots
    gradients   float32: the rows' gradients, one after the other, then what travels beside each row
                (`beside_rows.py`).  Where gradients are encoded, this is not
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from ps_train.engine.transport.beside_rows import beside_name
from ps_train.engine.transport.codecs.codec import Codec
from ps_train.engine.transport.codecs.wire import as_one, from_one, joined, split
from ps_train.engine.transport.pull_encoding import PLAIN, PullEncoding
from ps_train.engine.transport.vocabulary import Vocabulary
from ps_train.engine.variables.plan import Plan, Slice
from ps_train.engine.variables.variables import ps_device
from ps_train.engine.variables.worker_state import growing_variable, local_variable
from ps_train.modeling.tables.deferred_lookups import FetchedRows, OfVocabularies
from ps_train.modeling.tables.id_encoding import unique as unique_keys

Widths = Mapping[str, int]
"""Numbers in a key, by the names of open vocabularies' slices."""

RowRead = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
"""Function of the row indices (or keys) of a slice, on its ps; returns its rows and columns, float32 [n, columns]."""


@dataclasses.dataclass(frozen=True)
class RowPush:
    """One step's push to the tables' slices on one ps.

    Attributes:
      slices: the tables' slices on the ps, in order.
      widths: numbers in a key, for all slices of open vocabularies.
      message: int32 [n], the row indices, on the ps; see the module.
      gradients: float32 [m], on the worker to be sent, or on the ps as received; as it travels until `on_ps`.
      beside: kind, name of the slice, and number of columns of what travels beside its rows, in order.
      beside_size: int32 scalar on the worker, how many numbers these are at the end of `gradients`.
      decode: function of `gradients` as they travel.
    """

    slices: tuple[Slice, ...]
    widths: Widths
    message: tf.Tensor
    gradients: tf.Tensor
    beside: tuple[tuple[str, str, int], ...]
    beside_size: tf.Tensor
    decode: Callable[[tf.Tensor], tf.Tensor] = lambda wire: wire

    def encoded(self, codec: Codec, seed: tf.Tensor) -> RowPush:
        """Returns the push with encoded gradients."""
        if not self.beside:
            wire = as_one(codec.encode(self.gradients, seed))
        else:
            sizes = [tf.size(self.gradients) - self.beside_size, self.beside_size]
            rows, beside = tf.split(self.gradients, sizes)
            wire = as_one([*codec.encode(rows, seed), beside])

        def decoded(wire: tf.Tensor) -> tf.Tensor:
            indices = row_indices_in(self.slices, self.widths, self.message)
            length = tf.add_n(
                [
                    tf.shape(some)[0] * math.prod(piece.shape[1:])
                    for piece, some in zip(self.slices, indices, strict=True)
                ]
            )
            dtypes = (*codec.dtypes, *([tf.float32] if self.beside else []))
            parts = from_one(wire, dtypes)
            rows = codec.decode(parts[: len(codec.dtypes)], length)
            return joined([rows, *parts[len(codec.dtypes) :]])

        return dataclasses.replace(self, gradients=wire, decode=decoded)

    def on_ps(self) -> RowPush:
        """Returns the push with its gradients on the ps (the device scope of the caller), decoded there."""
        return dataclasses.replace(self, gradients=self.decode(tf.identity(self.gradients)), decode=lambda wire: wire)

    def gradients_by_slice(self, message: tf.Tensor, gradients: tf.Tensor) -> dict[str, Any]:
        """Returns the gradients of a push to these slices by slice name, and what travels beside them by its names.

        A gradient is IndexedSlices.  Its indices are row indices int32 [n], or for open vocabularies keys
        int64 [n, width].  What travels beside them is float32 [n], or [n, columns] for several.

        Args:
          message: int32, see the module.
          gradients: float32, see the module.
        """
        indices = row_indices_in(self.slices, self.widths, message)
        counts = {piece.name: tf.shape(rows)[0] for piece, rows in zip(self.slices, indices, strict=True)}
        shapes: list[list[Any]] = [[counts[piece.name], *piece.shape[1:]] for piece in self.slices]
        shapes += [[counts[name], *([columns] if columns > 1 else [])] for _, name, columns in self.beside]
        values = split(gradients, shapes)
        found: dict[str, Any] = {
            piece.name: tf.IndexedSlices(part, rows, tf.constant(piece.shape, tf.int64))
            for piece, rows, part in zip(self.slices, indices, values[: len(indices)], strict=True)
        }
        beside = zip(self.beside, values[len(indices) :], strict=True)
        return found | {beside_name(kind, name): part for (kind, name, _), part in beside}


def row_indices_in(slices: Sequence[Slice], widths: Widths, message: tf.Tensor) -> list[tf.Tensor]:
    """Returns the row indices (int32 [n]) or keys (int64 [n, width]) of each slice."""
    parts = [message]
    if len(slices) > 1:
        parts = tf.split(message[len(slices) :], message[: len(slices)], num=len(slices))
    return [
        tf.bitcast(tf.reshape(part, [-1, widths[piece.name], 2]), tf.int64) if piece.name in widths else part
        for piece, part in zip(slices, parts, strict=True)
    ]


def _encode(indices: tf.Tensor) -> tf.Tensor:
    """Returns row indices unchanged, and keys as int32 [n]."""
    return tf.reshape(tf.bitcast(indices, tf.int32), [-1]) if indices.dtype == tf.int64 else indices


class RowExchange:
    """The transport of one step's rows and gradients for one replica.

    Args:
      plan: the slices of all variables.
      names: all tables of the model, in the same order in every process.
      variables: slice name to variable.
      vocabularies: slice name to open vocabulary.
      encoding: encoding of the rows that travel to the worker.

    Attributes:
      widths: numbers in a key, by the names of open vocabularies' slices.
      slices: the tables' slices on each ps.
      received: what `pull` sends to the worker, on the ps.
    """

    def __init__(
        self,
        plan: Plan,
        names: Sequence[str],
        variables: Mapping[str, Any],
        vocabularies: Mapping[str, Vocabulary] | None = None,
        encoding: PullEncoding = PLAIN,
    ) -> None:
        self._encoding = encoding
        self._variables, self._vocabularies = variables, vocabularies or {}
        self.widths = {name: vocabulary.width for name, vocabulary in self._vocabularies.items()}
        self._slices_of = {name: plan.slices_of(name) for name in names}
        pieces = [piece for name in names for piece in self._slices_of[name]]
        self.slices = [tuple(piece for piece in pieces if piece.ps == ps) for ps in range(plan.num_ps)]
        self.received: list[tf.Tensor] = []
        self._whole: dict[str, tf.Tensor] = {}
        self._kept: _KeptRequests | None = None

    def keep(self) -> None:
        """Lets `push` be in a later call than `pull`: what it needs of it is kept on the worker.

        Call it before both; `pull` is then followed by `kept`.
        """
        self._kept = _KeptRequests(self.slices)

    def kept(self) -> list[tf.Operation]:
        """Returns the operations that keep what a later push needs of the pull."""
        assert self._kept is not None, "the exchange keeps it"
        return self._kept.assign(self._sent, self._sizes)

    def pull(
        self,
        requests: Mapping[str, tf.Tensor],
        after: Sequence[tf.Tensor],
        reads: Mapping[str, RowRead] = MappingProxyType({}),
    ) -> dict[str, FetchedRows]:
        """Returns rows on the worker (the device scope of the caller), by the name of the table.

        Args:
          requests: table name to positions int64 [n], or to keys int64 [n, width] for an open vocabulary.
          after: one tensor on each ps; the ps reads rows after it.
          reads: for slices whose rows have columns, how they are read.
        """
        indices: dict[str, tf.Tensor] = {}
        index: dict[str, tf.Tensor] = {}
        for name, pieces in self._slices_of.items():
            parts, index[name] = self._divided(requests[name], pieces)
            indices |= {piece.name: part for piece, part in zip(pieces, parts, strict=True)}
        self._sizes = {name: tf.shape(some)[0] for name, some in indices.items()}
        self._sent: dict[int, tf.Tensor] = {}
        self._messages: dict[int, tf.Tensor] = {}
        rows: dict[str, tf.Tensor] = {}
        known: dict[str, tf.Tensor] = {}
        columns: dict[str, tf.Tensor] = {}
        for ps, slices in enumerate(self.slices):
            if slices:
                self._fetch(ps, slices, indices, after[ps], reads, (rows, known, columns))
        found = {}
        for name, pieces in self._slices_of.items():
            flags = _concatenated([known[piece.name] for piece in pieces]) > 0.5 if pieces[0].name in known else None
            beside = _concatenated([columns[piece.name] for piece in pieces]) if pieces[0].name in columns else None
            found[name] = FetchedRows(_concatenated([rows[piece.name] for piece in pieces]), index[name], flags, beside)
        return found

    def of_vocabularies(self, after: Sequence[tf.Tensor], batches_per_update: int = 1) -> OfVocabularies:
        """Returns `draw` and `uses`, which each ps runs after its tensor of `after`, `whole`, and the given number."""
        return OfVocabularies(
            lambda name, n, by_uses: self.draw(name, n, by_uses, after),
            lambda name, keys: self.uses(name, keys, after),
            batches_per_update,
            self.whole,
        )

    def whole(self, name: str) -> tf.Tensor:
        """Returns all rows of a table without an open vocabulary, in the order of its slices, on the worker.

        No part of a step needs them: a call that fetches nothing of them, such as a summary, does not move them.
        """
        if name not in self._whole:
            found = []
            with tf.init_scope():  # the model may read it in a branch or loop
                for piece in self._slices_of[name]:
                    variable = self._variables[piece.name]
                    with tf.device(ps_device(piece.ps)):
                        found.append(tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype))
                self._whole[name] = tf.identity(_concatenated(found))
        return self._whole[name]

    def draw(self, name: str, n: int, by_uses: bool, after: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the draws of each slice of an open vocabulary, on the worker; see `RowIndex.draw`.

        Args:
          name: the table.
          n: number of draws of all slices together; each makes at least one.
          by_uses: True draws ids as often as updates have used them, False draws all equally often.
          after: one tensor on each ps; the ps draws after it.
        """
        pieces = self._slices_of[name]
        found = []
        for number, piece in enumerate(pieces):
            count = max(1, n // len(pieces) + (number < n % len(pieces)))
            # The steps of the model's own state, which its other operations wait for, are on the worker.
            with tf.control_dependencies(None), tf.device(ps_device(piece.ps)):
                drawn = self._vocabularies[piece.name].draw(count, by_uses, after[piece.ps])
            # One tensor, so that a step whose rows are pulled ahead has the ids and the weights of one draw.
            found.append(tf.identity(drawn))
        return found

    def uses(self, name: str, keys: tf.Tensor, after: Sequence[tf.Tensor]) -> tf.Tensor:
        """Returns the uses of ids of an open vocabulary, on the worker; see `RowIndex.uses`.

        Every ps gets all keys, and knows some of them.

        Args:
          name: the table.
          keys: int64 [n, width].
          after: one tensor on each ps; the ps reads after it.
        """
        found = []
        for piece in self._slices_of[name]:
            with tf.control_dependencies(None), tf.device(ps_device(piece.ps)):
                known = self._vocabularies[piece.name].uses(tf.identity(keys), after[piece.ps])
            found.append(tf.identity(known))
        result = found[0]
        for other in found[1:]:
            result = tf.where(other[:, :1] > 0, other, result)
        return result

    def _divided(self, requested: tf.Tensor, pieces: Sequence[Slice]) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Returns the distinct row indices (or keys) of each slice, and the index of each request among all of them."""
        begins = [piece.begin for piece in pieces]
        vocabulary = self._vocabularies.get(pieces[0].name)
        if vocabulary is not None:
            indices, index = unique_keys(requested)
            owner = _owner(vocabulary.place_of(indices), begins)
        else:
            positions, index = tf.unique(requested)
            owner = _owner(positions, begins)
            indices = tf.cast(positions - tf.gather(tf.constant(begins, tf.int64), owner), tf.int32)
        if len(begins) == 1:
            return [indices], index
        order = tf.concat(tf.dynamic_partition(tf.range(tf.size(owner)), owner, len(begins)), 0)
        place = tf.math.invert_permutation(order)
        return tf.dynamic_partition(indices, owner, len(begins)), tf.gather(place, index)

    def _fetch(
        self,
        ps: int,
        slices: Sequence[Slice],
        indices: Mapping[str, tf.Tensor],
        after: tf.Tensor,
        reads: Mapping[str, RowRead],
        found: tuple[dict[str, Any], dict[str, Any], dict[str, Any]],
    ) -> None:
        """Adds the slices' rows on the worker, flags of known ids (float32), and columns to `found`."""
        parts = [_encode(indices[piece.name]) for piece in slices]
        message = parts[0]
        if len(slices) > 1:
            message = tf.concat([tf.stack([tf.size(part) for part in parts]), *parts], 0)
        self._sent[ps] = message
        with tf.device(ps_device(ps)):
            message = self._messages[ps] = tf.identity(message)
            with tf.control_dependencies([after]):
                pulled, flags, beside = self._read_on_ps(slices, message, reads)
            encoding = self._encoding.on(ps, "rows")
            vector = encoding.encode_rows([*pulled.values()], [*flags.values()], after)
            columns = [joined([*beside.values()])] if beside else []
        self.received += [vector, *columns]
        shapes: list[list[Any]] = [[self._sizes[piece.name], *piece.shape[1:]] for piece in slices]
        on_worker = encoding.decode_rows(vector, shapes, [[self._sizes[name]] for name in flags])
        rows, known, with_columns = found
        rows |= {piece.name: part for piece, part in zip(slices, on_worker[: len(slices)], strict=True)}
        known |= dict(zip(flags, on_worker[len(slices) :], strict=True))
        for one in columns:
            widths: list[list[Any]] = [[self._sizes[name], part.shape[1]] for name, part in beside.items()]
            with_columns |= dict(zip(beside, split(tf.identity(one), widths), strict=True))

    def _read_on_ps(
        self, slices: Sequence[Slice], message: tf.Tensor, reads: Mapping[str, RowRead]
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Returns on the ps the slices' rows, flags of known ids (float32), and columns, all by slice name."""
        pulled, flags, columns = {}, {}, {}
        for piece, indices in zip(slices, row_indices_in(slices, self.widths, message), strict=True):
            if piece.name in reads:
                pulled[piece.name], columns[piece.name] = reads[piece.name](indices)
            elif piece.name in self._vocabularies:
                pulled[piece.name], known = self._vocabularies[piece.name].read(indices)
                flags[piece.name] = tf.cast(known, tf.float32)
            else:
                pulled[piece.name] = self._variables[piece.name].sparse_read(indices)
        return pulled, flags, columns

    def push(
        self, gradients: Mapping[str, tf.Tensor], beside: Mapping[str, Mapping[str, tf.Tensor]]
    ) -> dict[int, RowPush]:
        """Returns the push to each ps with a table's slice.  Call it after `pull`, or after `keep`.

        Args:
          gradients: table name to the gradient of `FetchedRows.rows`.
          beside: of a kind (`beside_rows.py`) and a table to what travels beside its rows, float32 [unique] or
            [unique, columns].
        """
        messages, sizes = (self._messages, self._sizes) if self._kept is None else self._kept.read()
        parts = self._by_slice(gradients, sizes)
        others = {kind: self._by_slice(tables, sizes) for kind, tables in beside.items()}
        pushes = {}
        for ps, message in messages.items():
            slices = self.slices[ps]
            own = [(kind, piece.name) for kind, some in others.items() for piece in slices if piece.name in some]
            values = [others[kind][name] for kind, name in own]
            vector = joined([*(parts[piece.name] for piece in slices), *values])
            widths = tuple(
                (kind, name, value.shape[1] if value.shape.rank == 2 else 1)
                for (kind, name), value in zip(own, values, strict=True)
            )
            number = tf.add_n([tf.constant(0), *(tf.size(value) for value in values)])
            pushes[ps] = RowPush(slices, self.widths, message, vector, widths, number)
        return pushes

    def _by_slice(self, values: Mapping[str, tf.Tensor], sizes: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns slice name to its part of the values [unique, ...] of each table."""
        parts: dict[str, tf.Tensor] = {}
        for name, value in values.items():
            pieces = self._slices_of[name]
            split = tf.split(value, [sizes[piece.name] for piece in pieces]) if len(pieces) > 1 else [value]
            parts |= {piece.name: part for piece, part in zip(pieces, split, strict=True)}
        return parts


class _KeptRequests:
    """The messages of a pull, and the number of each slice's rows, in variables of the worker.

    Args:
      slices: the tables' slices on each ps.
    """

    def __init__(self, slices: Sequence[Sequence[Slice]]) -> None:
        with tf.device("/device:CPU:0"):
            self._messages = {
                ps: growing_variable(f"ps_train/kept_rows/message_{ps}", tf.int32)
                for ps, some in enumerate(slices)
                if some
            }
            self._sizes = {
                piece.name: local_variable(f"ps_train/kept_rows/size_{number}", [], tf.int32)
                for number, piece in enumerate(piece for some in slices for piece in some)
            }

    def assign(self, messages: Mapping[int, tf.Tensor], sizes: Mapping[str, tf.Tensor]) -> list[tf.Operation]:
        """Returns the operations that keep those of a pull."""
        with tf.device("/device:CPU:0"):
            return [
                *(self._messages[ps].assign(message, read_value=False) for ps, message in messages.items()),
                *(self._sizes[name].assign(size, read_value=False) for name, size in sizes.items()),
            ]

    def read(self) -> tuple[dict[int, tf.Tensor], dict[str, tf.Tensor]]:
        """Returns the messages on their ps, and the sizes."""
        with tf.device("/device:CPU:0"):
            kept = {ps: message.read_value() for ps, message in self._messages.items()}
            sizes = {name: size.read_value() for name, size in self._sizes.items()}
        messages = {}
        for ps, message in kept.items():
            with tf.device(ps_device(ps)):
                messages[ps] = tf.identity(message)
        return messages, sizes


def _owner(positions: tf.Tensor, begins: Sequence[int]) -> tf.Tensor:
    """Returns the slice of each position, int32."""
    if len(begins) == 1:
        return tf.zeros_like(positions, tf.int32)
    return tf.searchsorted(tf.constant(begins[1:], tf.int64), positions, side="right")


def _concatenated(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat(parts, 0) if len(parts) > 1 else parts[0]
