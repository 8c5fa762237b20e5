"""Stored variables in chunks of bounded size: only its ps ever holds a large variable whole.

for chunks in grouped(stored, limit=64 << 20):
    tensors = [chunk.read() for chunk in chunks]        # on the ps
    written = [chunk.write(value) for chunk, value in zip(chunks, values)]
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from ps_train.graph.variables import Stored


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Some rows of a stored variable, or all of it.

    Attributes:
      spec: TensorFlow's notation of which slice of the key's tensor it is; "" for all of it.
      begin: the first row.
      rows: how many; None: the whole variable.
    """

    stored: Stored
    spec: str
    bytes: int
    begin: int = 0
    rows: int | None = None

    def read(self) -> tf.Tensor:
        """Its values, on the variable's ps.  Rows are gathered: to read a variable that has sparse updates copies all
        of it first."""
        if self.rows is None:
            return self.stored.variable.read_value()
        with tf.device(self.stored.variable.device):
            return self.stored.variable.sparse_read(self._numbers())

    def write(self, value: tf.Tensor) -> tf.Operation:
        """Gives the variable, which must be initialised, these values."""
        variable: Any = self.stored.variable
        if self.rows is None:
            return variable.assign(value, read_value=False)
        with tf.device(variable.device):
            return tf.raw_ops.ResourceScatterUpdate(resource=variable.handle, indices=self._numbers(), updates=value)

    def _numbers(self) -> tf.Tensor:
        assert self.rows is not None, "a whole variable has no numbers of rows"
        return tf.range(self.begin, self.begin + self.rows)


def grouped(stored: Sequence[Stored], limit: int) -> list[list[Chunk]]:
    """All of them in groups of at most so many bytes (or of one row)."""
    groups: list[list[Chunk]] = [[]]
    room = limit
    for one in stored:
        for chunk in _cut(one, limit):
            if chunk.bytes > room and groups[-1]:
                groups.append([])
                room = limit
            groups[-1].append(chunk)
            room -= chunk.bytes
    return groups


def _cut(stored: Stored, limit: int) -> Iterator[Chunk]:
    shape = stored.variable.shape.as_list()
    total = math.prod(shape) * stored.variable.dtype.size
    if total <= limit or not shape:
        yield Chunk(stored, stored.slice_spec, total)
        return
    whole, offset = _place(stored, shape)
    row = total // shape[0]
    step = max(1, limit // row)
    for begin in range(0, shape[0], step):
        rows = min(step, shape[0] - begin)
        extents = [f"{offset + begin},{rows}", *(f"0,{size}" for size in shape[1:])]
        yield Chunk(stored, f"{whole} {':'.join(extents)}", rows * row, begin, rows)


def _place(stored: Stored, shape: Sequence[int]) -> tuple[str, int]:
    """The full shape of the key's tensor, in words, and at which of its rows the variable begins."""
    if not stored.slice_spec:
        return " ".join(map(str, shape)), 0
    *whole, extents = stored.slice_spec.split(" ")
    return " ".join(whole), int(extents.split(",")[0])
