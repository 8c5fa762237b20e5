"""Stored variables in parts of bounded size: only its ps ever holds a large variable whole.

    for part in parted(stored, limit=32 << 20):
        values, put = part.read(), part.write(values)
        for turn in part.turns:
            session.run(put, turn)                      # what is read or written is fed

To make a graph ready for what it has not run before takes longer than to move a part, so that all parts of a variable
are moved by the same operations.  Variables of a dtype outside SLICED_DTYPES are in the file whole, and move whole.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.placement.variables import CheckpointEntry, scatter_rows, variable_bytes

SLICED_DTYPES = frozenset(
    [tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128, tf.bool]
    + [tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.qint8, tf.quint8, tf.qint32]
)
"""Dtypes of which TensorFlow 2.21 restores other slices than it saved.  float16 is not among them."""


class Chunk(abc.ABC):
    """What is read or written at once.

    Attributes:
      stored: the variables.
      specs: TensorFlow's notation of which slice of its key's tensor each is; "" for all of it.  Strings, or a tensor.
      turns: the feeds of each run.
    """

    def __init__(self, stored: Sequence[CheckpointEntry], specs: Any, turns: Sequence[Mapping[Any, Any]]) -> None:
        self.stored, self.specs, self.feeds = stored, specs, turns

    @abc.abstractmethod
    def read(self) -> list[tf.Tensor]:
        """The values, each on its variable's ps."""

    @abc.abstractmethod
    def write(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        """Gives the variables these values."""


class WholeChunk(Chunk):
    """Some small variables together."""

    def __init__(self, stored: Sequence[CheckpointEntry]) -> None:
        super().__init__(stored, [one.slice_spec for one in stored], [{}])

    def read(self) -> list[tf.Tensor]:
        return [one.variable.read_value() for one in self.stored]

    def write(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        return tf.group(*[o.variable.assign(v, read_value=False) for o, v in zip(self.stored, values, strict=True)])


class RowChunk(Chunk):
    """A large variable, some rows in each turn."""

    def __init__(self, stored: CheckpointEntry, rows: int) -> None:
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
            return scatter_rows(self._variable, tf.range(self._begin, self._end), values[0])


class JoinedChunk(Chunk):
    """Slices of one variable, some or all, of a dtype that has no slices in a file: the file has all rows together.

    The caller's device holds the whole variable, as every worker does in a step.  Each slice is one message.
    """

    def __init__(self, stored: Sequence[CheckpointEntry]) -> None:
        super().__init__(stored[:1], [""], [{}])
        self._slices = sorted(((_begin(one), one.variable) for one in stored), key=lambda pair: pair[0])

    def read(self) -> list[tf.Tensor]:
        """The whole value; of all slices only."""
        return [tf.concat([variable.read_value() for _, variable in self._slices], 0)]

    def write(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        """Gives each slice its rows of the whole value."""
        return tf.group(
            *[
                variable.assign(values[0][begin : begin + variable.shape[0]], read_value=False)
                for begin, variable in self._slices
            ]
        )


def split_into_chunks(stored: Sequence[CheckpointEntry], limit: int) -> list[Chunk]:
    """All of them in parts of at most so many bytes (or of one row, or one variable that has no slices in a file)."""
    joined: dict[str, list[CheckpointEntry]] = {}
    for one in (one for one in stored if one.slice_spec and not _may_be_sliced(one)):
        joined.setdefault(one.key, []).append(one)
    others = [one for one in stored if one.key not in joined]
    return [*map(JoinedChunk, joined.values()), *_parted(others, limit)]


def _may_be_sliced(stored: CheckpointEntry) -> bool:
    return stored.variable.dtype.base_dtype in SLICED_DTYPES


def _parted(stored: Sequence[CheckpointEntry], limit: int) -> list[Chunk]:
    parts: list[Chunk] = []
    group: list[CheckpointEntry] = []
    room = limit
    for one in stored:
        shape = one.variable.shape.as_list()
        total = variable_bytes(one.variable)
        if total > limit and shape and _may_be_sliced(one):
            parts.append(RowChunk(one, max(1, limit * shape[0] // total)))
            continue
        if total > room and group:
            parts.append(WholeChunk(group))
            group, room = [], limit
        group.append(one)
        room -= total
    return [*parts, WholeChunk(group)] if group else parts


def _place(stored: CheckpointEntry, shape: Sequence[int]) -> tuple[str, int]:
    """The full shape of the key's tensor, in words, and at which of its rows the variable begins."""
    if not stored.slice_spec:
        return " ".join(map(str, shape)), 0
    return stored.slice_spec.rpartition(" ")[0], _begin(stored)


def _begin(stored: CheckpointEntry) -> int:
    """The row of the key's tensor at which a slice begins."""
    return int(stored.slice_spec.rpartition(" ")[2].split(",")[0])
