"""How rows of tables reach a worker, and their gradients a ps: per ps one tensor of ids, one of rows, one of gradients.

    exchange = Exchange(plan, list(traced.tables()), variables)
    found = exchange.pull({"ads": positions}, after=stamps)         # rows on the worker, each once
    sent = exchange.push({"ads": gradients of found["ads"].rows})   # for each ps, what is to be sent

However many tables and lookups there are.  A row is known by its number within its slice, int32, or by an id of an open
vocabulary, two int32 for each of its words; what came for the rows stays on the ps and serves for the gradients too.
What travels, in the order of the ps's slices:

    message     int32: if there are several slices, how many int32 of each; then the rows' numbers or ids
    rows        float32: the rows, one after the other; so are the gradients.  Behind the rows, for each id of an open
                vocabulary 1 if it is known, else 0
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ps_train.embeddings.deferred_lookups import FetchedRows
from ps_train.embeddings.id_encoding import unique as unique_words
from ps_train.placement.plan import Plan, Slice
from ps_train.placement.variables import ps_device
from ps_train.tables.vocabulary import Vocabulary

Widths = Mapping[str, int]
"""Of slices of open vocabularies, how many words an id has."""


@dataclasses.dataclass(frozen=True)
class RowPush:
    """What one step has to do with the tables' slices on one ps.

    Attributes:
      slices: those there, in order.
      widths: of the open vocabularies among all slices.
      message: on the ps, as it came.
      pulled: on the ps, slice name to the rows that were read.
      gradients: flat float32: to be sent, or as they arrived.
    """

    slices: tuple[Slice, ...]
    widths: Widths
    message: tf.Tensor
    pulled: dict[str, tf.Tensor]
    gradients: tf.Tensor

    def gradients_by_slice(self) -> dict[str, tf.IndexedSlices]:
        """Slice name to the gradient of some of its rows; see `by_slice`."""
        return by_slice(self.slices, self.widths, self.message, self.gradients)


def by_slice(
    slices: Sequence[Slice], widths: Widths, message: tf.Tensor, gradients: tf.Tensor
) -> dict[str, tf.IndexedSlices]:
    """The indices are numbers of rows; of open vocabularies they are ids as words, int64 [n, width]."""
    numbers = row_indices_in(slices, widths, message)
    values = _parted(
        gradients, [[tf.shape(some)[0], piece.shape[1]] for piece, some in zip(slices, numbers, strict=True)]
    )
    return {
        piece.name: tf.IndexedSlices(part, some, tf.constant(piece.shape, tf.int64))
        for piece, some, part in zip(slices, numbers, values, strict=True)
    }


def row_indices_in(slices: Sequence[Slice], widths: Widths, message: tf.Tensor) -> list[tf.Tensor]:
    """Of each slice, the numbers of rows in it, or words."""
    parts = [message]
    if len(slices) > 1:
        parts = tf.split(message[len(slices) :], message[: len(slices)], num=len(slices))
    return [
        tf.bitcast(tf.reshape(part, [-1, widths[piece.name], 2]), tf.int64) if piece.name in widths else part
        for piece, part in zip(slices, parts, strict=True)
    ]


def _sent(numbers: tf.Tensor) -> tf.Tensor:
    """Numbers of rows as they are, words as int32."""
    return tf.reshape(tf.bitcast(numbers, tf.int32), [-1]) if numbers.dtype == tf.int64 else numbers


class RowExchange:
    """One replica's step.

    Args:
      names: all tables of the model, in an order that every process computes alike.
      variables: slice name to variable.
      vocabularies: slice name to vocabulary, of those that are open.
    """

    def __init__(
        self,
        plan: Plan,
        names: Sequence[str],
        variables: Mapping[str, Any],
        vocabularies: Mapping[str, Vocabulary] | None = None,
    ) -> None:
        self._variables, self._vocabularies = variables, vocabularies or {}
        self.widths = {name: vocabulary.width for name, vocabulary in self._vocabularies.items()}
        self._of = {name: plan.slices_of(name) for name in names}
        pieces = [piece for name in names for piece in self._of[name]]
        self.slices = [tuple(piece for piece in pieces if piece.ps == ps) for ps in range(plan.num_ps)]

    def pull(self, wanted: Mapping[str, tf.Tensor], after: Sequence[tf.Tensor]) -> dict[str, FetchedRows]:
        """Rows on the worker (the device scope of the caller).

        Args:
          wanted: name to positions, int64 [n]; of an open vocabulary to words, int64 [n, width].
          after: for each ps a tensor there; rows are read only after it.
        """
        numbers: dict[str, tf.Tensor] = {}
        index: dict[str, tf.Tensor] = {}
        for name, pieces in self._of.items():
            parts, index[name] = self._divided(wanted[name], pieces)
            numbers |= {piece.name: part for piece, part in zip(pieces, parts, strict=True)}
        self._sizes = {name: tf.shape(some)[0] for name, some in numbers.items()}
        self._read: list[tuple[tf.Tensor, dict[str, tf.Tensor]] | None] = []
        rows: dict[str, tf.Tensor] = {}
        known: dict[str, tf.Tensor] = {}
        for ps, slices in enumerate(self.slices):
            self._read.append(self._fetch(ps, slices, numbers, after[ps], rows, known) if slices else None)
        found = {}
        for name, pieces in self._of.items():
            flags = _concatenated([known[piece.name] for piece in pieces]) > 0.5 if pieces[0].name in known else None
            found[name] = FetchedRows(_concatenated([rows[piece.name] for piece in pieces]), index[name], flags)
        return found

    def _divided(self, wanted: tf.Tensor, pieces: Sequence[Slice]) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Of each slice what is wanted of it, each once, as row numbers int32 or as words; and which of all those each
        of the wanted is."""
        begins = [piece.begin for piece in pieces]
        vocabulary = self._vocabularies.get(pieces[0].name)
        if vocabulary is not None:
            numbers, index = unique_words(wanted)
            owner = _owner(vocabulary.place_of(numbers), begins)
        else:
            positions, index = tf.unique(wanted)
            owner = _owner(positions, begins)
            numbers = tf.cast(positions - tf.gather(tf.constant(begins, tf.int64), owner), tf.int32)
        if len(begins) == 1:
            return [numbers], index
        order = tf.concat(tf.dynamic_partition(tf.range(tf.size(owner)), owner, len(begins)), 0)
        place = tf.math.invert_permutation(order)
        return tf.dynamic_partition(numbers, owner, len(begins)), tf.gather(place, index)

    def _fetch(
        self,
        ps: int,
        slices: Sequence[Slice],
        numbers: Mapping[str, tf.Tensor],
        after: tf.Tensor,
        rows: dict[str, Any],
        known: dict[str, Any],
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Adds the slices' rows, on the worker, to `rows`, and to `known` which of them are (float32)."""
        parts = [_sent(numbers[piece.name]) for piece in slices]
        message = parts[0]
        if len(slices) > 1:
            message = tf.concat([tf.stack([tf.size(part) for part in parts]), *parts], 0)
        with tf.device(ps_device(ps)):
            message = tf.identity(message)
            with tf.control_dependencies([after]):
                pulled, flags = self._read_on_ps(slices, message)
            vector = _joined([*pulled.values(), *flags.values()])
        shapes: list[list[Any]] = [[self._sizes[piece.name], piece.shape[1]] for piece in slices]
        found = _parted(vector, shapes + [[self._sizes[name]] for name in flags])
        rows |= {piece.name: part for piece, part in zip(slices, found[: len(slices)], strict=True)}
        known |= dict(zip(flags, found[len(slices) :], strict=True))
        return message, pulled

    def _read_on_ps(
        self, slices: Sequence[Slice], message: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """On the ps: the slices' rows, and of open vocabularies which of them are known, float32."""
        pulled, flags = {}, {}
        for piece, some in zip(slices, row_indices_in(slices, self.widths, message), strict=True):
            if piece.name in self._vocabularies:
                pulled[piece.name], known = self._vocabularies[piece.name].read(some)
                flags[piece.name] = tf.cast(known, tf.float32)
            else:
                pulled[piece.name] = self._variables[piece.name].sparse_read(some)
        return pulled, flags

    def push(self, gradients: Mapping[str, tf.Tensor]) -> list[RowPush | None]:
        """For each ps what is to be sent there (None: there is no table's slice).  After `pull`.

        Args:
          gradients: name to the gradient of `Found.rows`.
        """
        parts: dict[str, tf.Tensor] = {}
        for name, pieces in self._of.items():
            sizes = [self._sizes[piece.name] for piece in pieces]
            split = tf.split(gradients[name], sizes) if len(pieces) > 1 else [gradients[name]]
            parts |= {piece.name: part for piece, part in zip(pieces, split, strict=True)}
        sent: list[RowPush | None] = []
        for slices, read in zip(self.slices, self._read, strict=True):
            vector = _joined([parts[piece.name] for piece in slices]) if slices else None
            sent.append(None if read is None else RowPush(slices, self.widths, *read, vector))
        return sent


def _owner(positions: tf.Tensor, begins: Sequence[int]) -> tf.Tensor:
    """In which slice each is, int32."""
    if len(begins) == 1:
        return tf.zeros_like(positions, tf.int32)
    return tf.searchsorted(tf.constant(begins[1:], tf.int64), positions, side="right")


def _concatenated(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat(parts, 0) if len(parts) > 1 else parts[0]


def _joined(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    flat = [tf.reshape(part, [-1]) for part in parts]
    return tf.concat(flat, 0) if len(flat) > 1 else flat[0]


def _parted(vector: tf.Tensor, shapes: Sequence[Sequence[Any]]) -> list[tf.Tensor]:
    """The inverse of `_joined`.  Of shapes only the first number may be a tensor."""
    parts = [vector]
    if len(shapes) > 1:
        parts = tf.split(vector, tf.stack([math.prod(shape[1:]) * shape[0] for shape in shapes]), num=len(shapes))
    return [tf.reshape(part, [-1, *shape[1:]]) for part, shape in zip(parts, shapes, strict=True)]
