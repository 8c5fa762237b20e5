"""How rows of tables reach a worker, and their gradients a ps: per ps one tensor of ids, one of rows, one of gradients.

    exchange = Exchange(plan, list(traced.tables()), variables)
    found = exchange.pull({"ads": positions}, after=stamps)         # rows on the worker, each once
    sent = exchange.push({"ads": gradients of found["ads"].rows})   # for each ps, what is to be sent

However many tables and lookups there are.  A row is known by its number within its slice, int32; the numbers that came
for the rows stay on the ps and serve for the gradients too.  What travels, in the order of the ps's slices:

    message     int32: if there are several slices, how many rows of each; then the rows' numbers
    rows        float32: the rows, one after the other; so are the gradients
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ps_train.graph.asked import Found
from ps_train.graph.plan import Plan, Slice
from ps_train.graph.variables import ps_device


@dataclasses.dataclass(frozen=True)
class Rows:
    """What one step has to do with the tables' slices on one ps.

    Attributes:
      slices: those there, in order.
      message: on the ps, as it came.
      pulled: on the ps, slice name to the rows that were read.
      gradients: flat float32: to be sent, or as they arrived.
    """

    slices: tuple[Slice, ...]
    message: tf.Tensor
    pulled: dict[str, tf.Tensor]
    gradients: tf.Tensor

    def by_slice(self) -> dict[str, tf.IndexedSlices]:
        """Slice name to the gradient of some of its rows."""
        return by_slice(self.slices, self.message, self.gradients)


def by_slice(slices: Sequence[Slice], message: tf.Tensor, gradients: tf.Tensor) -> dict[str, tf.IndexedSlices]:
    numbers = numbers_in(slices, message)
    values = _parted(gradients, slices, [tf.size(some) for some in numbers])
    return {
        piece.name: tf.IndexedSlices(part, some, tf.constant(piece.shape, tf.int64))
        for piece, some, part in zip(slices, numbers, values, strict=True)
    }


def numbers_in(slices: Sequence[Slice], message: tf.Tensor) -> list[tf.Tensor]:
    """Of each slice, the numbers of rows in it."""
    if len(slices) == 1:
        return [message]
    return tf.split(message[len(slices) :], message[: len(slices)], num=len(slices))


class Exchange:
    """One replica's step.

    Args:
      names: all tables of the model, in an order that every process computes alike.
      variables: slice name to variable.
    """

    def __init__(self, plan: Plan, names: Sequence[str], variables: Mapping[str, Any]) -> None:
        self._variables = variables
        self._of = {name: plan.of(name) for name in names}
        pieces = [piece for name in names for piece in self._of[name]]
        self.slices = [tuple(piece for piece in pieces if piece.ps == ps) for ps in range(plan.num_ps)]

    def pull(self, wanted: Mapping[str, tf.Tensor], after: Sequence[tf.Tensor]) -> dict[str, Found]:
        """Rows on the worker (the device scope of the caller).

        Args:
          wanted: name to positions, int64 [n].
          after: for each ps a tensor there; rows are read only after it.
        """
        numbers: dict[str, tf.Tensor] = {}
        index: dict[str, tf.Tensor] = {}
        for name, pieces in self._of.items():
            parts, index[name] = _divided(wanted[name], [piece.begin for piece in pieces])
            numbers |= {piece.name: part for piece, part in zip(pieces, parts, strict=True)}
        self._sizes = {name: tf.size(some) for name, some in numbers.items()}
        self._read: list[tuple[tf.Tensor, dict[str, tf.Tensor]] | None] = []
        rows: dict[str, tf.Tensor] = {}
        for ps, slices in enumerate(self.slices):
            self._read.append(self._ask(ps, slices, numbers, after[ps], rows) if slices else None)
        found = {}
        for name, pieces in self._of.items():
            parts = [rows[piece.name] for piece in pieces]
            found[name] = Found(tf.concat(parts, 0) if len(parts) > 1 else parts[0], index[name])
        return found

    def _ask(
        self, ps: int, slices: Sequence[Slice], numbers: Mapping[str, tf.Tensor], after: tf.Tensor, rows: dict[str, Any]
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        parts = [numbers[piece.name] for piece in slices]
        message = parts[0]
        if len(slices) > 1:
            message = tf.concat([tf.stack([self._sizes[piece.name] for piece in slices]), *parts], 0)
        with tf.device(ps_device(ps)):
            message = tf.identity(message)
            with tf.control_dependencies([after]):
                pulled = {
                    piece.name: self._variables[piece.name].sparse_read(some)
                    for piece, some in zip(slices, numbers_in(slices, message), strict=True)
                }
            vector = _joined(list(pulled.values()))
        sizes = [self._sizes[piece.name] for piece in slices]
        rows |= {piece.name: part for piece, part in zip(slices, _parted(vector, slices, sizes), strict=True)}
        return message, pulled

    def push(self, gradients: Mapping[str, tf.Tensor]) -> list[Rows | None]:
        """For each ps what is to be sent there (None: there is no table's slice).  After `pull`.

        Args:
          gradients: name to the gradient of `Found.rows`.
        """
        parts: dict[str, tf.Tensor] = {}
        for name, pieces in self._of.items():
            sizes = [self._sizes[piece.name] for piece in pieces]
            split = tf.split(gradients[name], sizes) if len(pieces) > 1 else [gradients[name]]
            parts |= {piece.name: part for piece, part in zip(pieces, split, strict=True)}
        sent: list[Rows | None] = []
        for slices, read in zip(self.slices, self._read, strict=True):
            vector = _joined([parts[piece.name] for piece in slices]) if slices else None
            sent.append(None if read is None else Rows(slices, *read, vector))
        return sent


def _divided(positions: tf.Tensor, begins: Sequence[int]) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Positions, made unique, as row numbers int32 of each slice; and which of all those each position is."""
    unique, index = tf.unique(positions)
    if len(begins) == 1:
        return [tf.cast(unique, tf.int32)], index
    owner = tf.searchsorted(tf.constant(begins[1:], tf.int64), unique, side="right")
    number = tf.cast(unique - tf.gather(tf.constant(begins, tf.int64), owner), tf.int32)
    order = tf.concat(tf.dynamic_partition(tf.range(tf.size(unique)), owner, len(begins)), 0)
    place = tf.math.invert_permutation(order)
    return tf.dynamic_partition(number, owner, len(begins)), tf.gather(place, index)


def _joined(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    flat = [tf.reshape(part, [-1]) for part in parts]
    return tf.concat(flat, 0) if len(flat) > 1 else flat[0]


def _parted(vector: tf.Tensor, slices: Sequence[Slice], sizes: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """The inverse of `_joined`: float32 [size, dimension] of each slice."""
    parts = [vector]
    if len(slices) > 1:
        lengths = [size * piece.shape[1] for piece, size in zip(slices, sizes, strict=True)]
        parts = tf.split(vector, tf.stack(lengths), num=len(slices))
    return [tf.reshape(part, [-1, piece.shape[1]]) for piece, part in zip(slices, parts, strict=True)]
