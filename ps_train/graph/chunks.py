"""Stored variables in parts of bounded size: only its ps ever holds a large variable whole.

    for part in parted(stored, limit=32 << 20):
        values, put = part.read(), part.write(values)
        for turn in part.turns:
            session.run(put, turn)                      # what is read or written is fed

To make a graph ready for what it has not run before takes longer than to move a part, so that all parts of a variable
are moved by the same operations.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.graph.variables import Stored, bytes_of, put_rows


class Part(abc.ABC):
    """What is read or written at once.

    Attributes:
      stored: the variables.
      specs: TensorFlow's notation of which slice of its key's tensor each is; "" for all of it.  Strings, or a tensor.
      turns: the feeds of each run.
    """

    def __init__(self, stored: Sequence[Stored], specs: Any, turns: Sequence[Mapping[Any, Any]]) -> None:
        self.stored, self.specs, self.turns = stored, specs, turns

    @abc.abstractmethod
    def read(self) -> list[tf.Tensor]:
        """The values, each on its variable's ps."""

    @abc.abstractmethod
    def write(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        """Gives the variables these values."""


class Whole(Part):
    """Some small variables together."""

    def __init__(self, stored: Sequence[Stored]) -> None:
        super().__init__(stored, [one.slice_spec for one in stored], [{}])

    def read(self) -> list[tf.Tensor]:
        return [one.variable.read_value() for one in self.stored]

    def write(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        return tf.group(*[o.variable.assign(v, read_value=False) for o, v in zip(self.stored, values, strict=True)])


class Rows(Part):
    """A large variable, some rows in each turn."""

    def __init__(self, stored: Stored, rows: int) -> None:
        self._variable = stored.variable
        self._begin, self._end = (v1.placeholder(tf.int32, [], name) for name in ("first_row", "last_row"))
        specs = v1.placeholder(tf.string, [1], "rows_spec")
        shape = self._variable.shape.as_list()
        whole, offset = _place(stored, shape)
        turns = []
        for begin in range(0, shape[0], rows):
            end = min(begin + rows, shape[0])
            extents = [f"{offset + begin},{end - begin}", *(f"0,{size}" for size in shape[1:])]
            turns.append({self._begin: begin, self._end: end, specs: [f"{whole} {':'.join(extents)}"]})
        super().__init__([stored], specs, turns)

    def read(self) -> list[tf.Tensor]:
        """Rows are gathered: to read a variable that has sparse updates copies all of it first."""
        with tf.device(self._variable.device):
            return [self._variable.sparse_read(tf.range(self._begin, self._end))]

    def write(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        """The variable must be initialised."""
        with tf.device(self._variable.device):
            return put_rows(self._variable, tf.range(self._begin, self._end), values[0])


def parted(stored: Sequence[Stored], limit: int) -> list[Part]:
    """All of them in parts of at most so many bytes (or of one row)."""
    parts: list[Part] = []
    group: list[Stored] = []
    room = limit
    for one in stored:
        shape = one.variable.shape.as_list()
        total = bytes_of(one.variable)
        if total > limit and shape:
            parts.append(Rows(one, max(1, limit * shape[0] // total)))
            continue
        if total > room and group:
            parts.append(Whole(group))
            group, room = [], limit
        group.append(one)
        room -= total
    return [*parts, Whole(group)] if group else parts


def _place(stored: Stored, shape: Sequence[int]) -> tuple[str, int]:
    """The full shape of the key's tensor, in words, and at which of its rows the variable begins."""
    if not stored.slice_spec:
        return " ".join(map(str, shape)), 0
    *whole, extents = stored.slice_spec.split(" ")
    return " ".join(whole), int(extents.split(",")[0])
