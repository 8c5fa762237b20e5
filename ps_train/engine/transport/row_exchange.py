"""The transport of table rows to a worker and of their gradients to the ps.

    exchange = RowExchange(plan, model_variables.tables(), variables)
    found = exchange.pull({"ads": positions}, after=versions)       # rows on the worker, each once
    pushes = exchange.push({"ads": row_gradients}, used={})         # one push for each ps

Each ps gets one tensor of row indices, and one tensor each of rows and gradients is sent, for any number of tables and
lookups.  A row is named by its index within its slice, int32.  In an open vocabulary it is named by its id's key, two
int32 for each number of the key.  The indices stay on the ps and serve for the gradients too.  Contents of the tensors,
in the order of the ps's slices:

    message     int32: for several slices the number of int32 of each slice; then row indices or keys
    rows        float32: the rows one after the other, then for each key 1 if its id is known, else 0.  Where rows are
                encoded, a flag is a uint8
    gradients   float32: the rows' gradients, one after the other, then for each row that the step may not have used 1
                if it has, else 0.  Where gradients are encoded, these flags are not
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ps_train.engine.transport.codecs.codec import Codec
from ps_train.engine.transport.codecs.wire import as_one, from_one, joined, split
from ps_train.engine.transport.pull_encoding import PLAIN, PullEncoding
from ps_train.engine.transport.sparse_mask import mask_name
from ps_train.engine.transport.vocabulary import Vocabulary
from ps_train.engine.variables.plan import Plan, Slice
from ps_train.engine.variables.variables import ps_device
from ps_train.modeling.tables.deferred_lookups import FetchedRows, OfVocabularies
from ps_train.modeling.tables.id_encoding import unique as unique_keys

Widths = Mapping[str, int]
"""Numbers in a key, by the names of open vocabularies' slices."""


@dataclasses.dataclass(frozen=True)
class RowPush:
    """One step's push to the tables' slices on one ps.

    Attributes:
      slices: the tables' slices on the ps, in order.
      widths: numbers in a key, for all slices of open vocabularies.
      message: int32 [n], the received row indices, on the ps; see the module.
      pulled: slice name to the rows read by the pull, on the ps.
      gradients: float32 [m], on the worker to be sent, or on the ps as received; as it travels until `on_ps`.
      flagged: names of the slices with a flag for each row.
      flags: int32 scalar on the worker, number of flags at the end of `gradients`.
      decode: function of `gradients` as they travel.
    """

    slices: tuple[Slice, ...]
    widths: Widths
    message: tf.Tensor
    pulled: dict[str, tf.Tensor]
    gradients: tf.Tensor
    flagged: tuple[str, ...]
    flags: tf.Tensor
    decode: Callable[[tf.Tensor], tf.Tensor] = lambda wire: wire

    def encoded(self, codec: Codec, seed: tf.Tensor) -> RowPush:
        """Returns the push with encoded gradients."""
        if not self.flagged:
            wire = as_one(codec.encode(self.gradients, seed))
        else:
            rows, flags = tf.split(self.gradients, [tf.size(self.gradients) - self.flags, self.flags])
            wire = as_one([*codec.encode(rows, seed), flags])

        def decoded(wire: tf.Tensor) -> tf.Tensor:
            length = tf.add_n([tf.size(rows) for rows in self.pulled.values()])
            dtypes = (*codec.dtypes, *([tf.float32] if self.flagged else []))
            parts = from_one(wire, dtypes)
            rows = codec.decode(parts[: len(codec.dtypes)], length)
            return joined([rows, *parts[len(codec.dtypes) :]])

        return dataclasses.replace(self, gradients=wire, decode=decoded)

    def on_ps(self) -> RowPush:
        """Returns the push with its gradients on the ps (the device scope of the caller), decoded there."""
        return dataclasses.replace(self, gradients=self.decode(tf.identity(self.gradients)), decode=lambda wire: wire)

    def gradients_by_slice(self, message: tf.Tensor, gradients: tf.Tensor) -> dict[str, Any]:
        """Returns the gradients of a push to these slices by slice name, and its flags by the names of masks.

        A gradient is IndexedSlices.  Its indices are row indices int32 [n], or for open vocabularies keys
        int64 [n, width].  The flags are float32 [n], see `sparse_mask.to_indexed_slices`.

        Args:
          message: int32, see the module.
          gradients: float32, see the module.
        """
        indices = row_indices_in(self.slices, self.widths, message)
        counts = {piece.name: tf.shape(rows)[0] for piece, rows in zip(self.slices, indices, strict=True)}
        shapes: list[list[Any]] = [[counts[piece.name], *piece.shape[1:]] for piece in self.slices]
        values = split(gradients, shapes + [[counts[name]] for name in self.flagged])
        found: dict[str, Any] = {
            piece.name: tf.IndexedSlices(part, rows, tf.constant(piece.shape, tf.int64))
            for piece, rows, part in zip(self.slices, indices, values[: len(indices)], strict=True)
        }
        masks = zip(self.flagged, values[len(indices) :], strict=True)
        return found | {mask_name(name): flags for name, flags in masks}


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

    def pull(self, requests: Mapping[str, tf.Tensor], after: Sequence[tf.Tensor]) -> dict[str, FetchedRows]:
        """Returns rows on the worker (the device scope of the caller), by the name of the table.

        Args:
          requests: table name to positions int64 [n], or to keys int64 [n, width] for an open vocabulary.
          after: one tensor on each ps; the ps reads rows after it.
        """
        indices: dict[str, tf.Tensor] = {}
        index: dict[str, tf.Tensor] = {}
        for name, pieces in self._slices_of.items():
            parts, index[name] = self._divided(requests[name], pieces)
            indices |= {piece.name: part for piece, part in zip(pieces, parts, strict=True)}
        self._sizes = {name: tf.shape(some)[0] for name, some in indices.items()}
        self._read: dict[int, tuple[tf.Tensor, dict[str, tf.Tensor]]] = {}
        rows: dict[str, tf.Tensor] = {}
        known: dict[str, tf.Tensor] = {}
        for ps, slices in enumerate(self.slices):
            if slices:
                self._read[ps] = self._fetch(ps, slices, indices, after[ps], rows, known)
        found = {}
        for name, pieces in self._slices_of.items():
            flags = _concatenated([known[piece.name] for piece in pieces]) > 0.5 if pieces[0].name in known else None
            found[name] = FetchedRows(_concatenated([rows[piece.name] for piece in pieces]), index[name], flags)
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
        rows: dict[str, Any],
        known: dict[str, Any],
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Adds the slices' rows on the worker to `rows`, and flags of known ids (float32) to `known`.

        Returns the message and the rows by slice name, both on the ps.
        """
        parts = [_encode(indices[piece.name]) for piece in slices]
        message = parts[0]
        if len(slices) > 1:
            message = tf.concat([tf.stack([tf.size(part) for part in parts]), *parts], 0)
        with tf.device(ps_device(ps)):
            message = tf.identity(message)
            with tf.control_dependencies([after]):
                pulled, flags = self._read_on_ps(slices, message)
            encoding = self._encoding.on(ps, "rows")
            vector = encoding.encode_rows([*pulled.values()], [*flags.values()], after)
        self.received.append(vector)
        shapes: list[list[Any]] = [[self._sizes[piece.name], *piece.shape[1:]] for piece in slices]
        found = encoding.decode_rows(vector, shapes, [[self._sizes[name]] for name in flags])
        rows |= {piece.name: part for piece, part in zip(slices, found[: len(slices)], strict=True)}
        known |= dict(zip(flags, found[len(slices) :], strict=True))
        return message, pulled

    def _read_on_ps(
        self, slices: Sequence[Slice], message: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Returns on the ps the slices' rows, and flags of known ids (float32), both by slice name."""
        pulled, flags = {}, {}
        for piece, indices in zip(slices, row_indices_in(slices, self.widths, message), strict=True):
            if piece.name in self._vocabularies:
                pulled[piece.name], known = self._vocabularies[piece.name].read(indices)
                flags[piece.name] = tf.cast(known, tf.float32)
            else:
                pulled[piece.name] = self._variables[piece.name].sparse_read(indices)
        return pulled, flags

    def push(self, gradients: Mapping[str, tf.Tensor], used: Mapping[str, tf.Tensor]) -> dict[int, RowPush]:
        """Returns the push to each ps with a table's slice.  Call it after `pull`.

        Args:
          gradients: table name to the gradient of `FetchedRows.rows`.
          used: table name to float32 [unique], above 0 for the fetched rows that the step has used; without the tables
            of which a step uses all rows.
        """
        parts, flags = self._by_slice(gradients), self._by_slice(used)
        pushes = {}
        for ps, read in self._read.items():
            slices = self.slices[ps]
            flagged = tuple(piece.name for piece in slices if piece.name in flags)
            vector = joined([*(parts[piece.name] for piece in slices), *(flags[name] for name in flagged)])
            number = tf.add_n([tf.constant(0), *(self._sizes[name] for name in flagged)])
            pushes[ps] = RowPush(slices, self.widths, *read, vector, flagged, number)
        return pushes

    def _by_slice(self, values: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns slice name to its part of the values [unique, ...] of each table."""
        parts: dict[str, tf.Tensor] = {}
        for name, value in values.items():
            pieces = self._slices_of[name]
            sizes = [self._sizes[piece.name] for piece in pieces]
            split = tf.split(value, sizes) if len(pieces) > 1 else [value]
            parts |= {piece.name: part for piece, part in zip(pieces, split, strict=True)}
        return parts


def _owner(positions: tf.Tensor, begins: Sequence[int]) -> tf.Tensor:
    """Returns the slice of each position, int32."""
    if len(begins) == 1:
        return tf.zeros_like(positions, tf.int32)
    return tf.searchsorted(tf.constant(begins[1:], tf.int64), positions, side="right")


def _concatenated(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat(parts, 0) if len(parts) > 1 else parts[0]
