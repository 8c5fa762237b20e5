"""Reading and writing of stored variables in chunks of bounded size.  Only its ps holds a large variable whole.

    for chunk in split_into_chunks(entries, limit=32 << 20):
        values = chunk.read()
        write = chunk.write(values)
        for feeds in chunk.feeds:
            session.run(write, feeds)                   # the feeds select the rows to move

Preparing a graph for new operations takes longer than moving a chunk.  So all parts of a variable are moved by the
same operations with different feeds.  Variables of a dtype outside SLICED_DTYPES are whole in the file and move whole.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.run_directory.checkpoint_contents import SLICED_DTYPES, row_runs
from ps_train.engine.variables.old_rows import OldRows
from ps_train.engine.variables.variables import CheckpointEntry, ps_index, read_in_one, rows_spec, variable_bytes
from ps_train.modeling.tables.row_allocator import scatter_rows


class Chunk(abc.ABC):
    """A group of variables, or a part of one, that is read or written in one call.

    Attributes:
      entries: the variables.
      specs: for each variable, which slice of its key's tensor it is, in TensorFlow's notation; "" for the whole
        tensor.  A list of strings, or a string tensor.
      feeds: the feeds of each call.
      ps: index of the ps that holds all of it; None for slices of several ps.
    """

    def __init__(self, entries: Sequence[CheckpointEntry], specs: Any, feeds: Sequence[Mapping[Any, Any]]) -> None:
        self.entries, self.specs, self.feeds = entries, specs, feeds
        self.ps: int | None = ps_index(entries[0].variable)

    @abc.abstractmethod
    def read(self) -> list[tf.Tensor]:
        """Reads the values, each on its variable's ps."""

    @abc.abstractmethod
    def write(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        """Assigns these values to the variables."""


class WholeChunk(Chunk):
    """Several small variables of one ps."""

    def __init__(self, entries: Sequence[CheckpointEntry]) -> None:
        super().__init__(entries, [entry.slice_spec for entry in entries], [{}])

    def read(self) -> list[tf.Tensor]:
        """Reads each variable, on its ps."""
        return [read_in_one(entry.variable) for entry in self.entries]

    def write(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        """Assigns each value to its variable, in the order of `entries`."""
        return tf.group(*[e.variable.assign(v, read_value=False) for e, v in zip(self.entries, values, strict=True)])


class RowChunk(Chunk):
    """Large variables with the same rows, of which each call moves some.

    Args:
      entries: the variables, on one ps.
      limit: bytes that one call moves at most; a single row may be larger.
      old: reads the rows as they were at the cut; None: the present ones.
    """

    def __init__(self, entries: Sequence[CheckpointEntry], limit: int, old: OldRows | None = None) -> None:
        self._variables, self._old = [entry.variable for entry in entries], old
        self._begin, self._end = (v1.placeholder(tf.int32, [], name) for name in ("first_row", "last_row"))
        specs = v1.placeholder(tf.string, [len(entries)], "rows_specs")
        count = self._variables[0].shape.as_list()[0]
        rows = max(1, limit * count // max(1, sum(map(variable_bytes, self._variables))))
        feeds = []
        for begin, some in row_runs(count, rows):
            parts = [rows_spec(entry.full_shape, entry.begin + begin, some) for entry in entries]
            feeds.append({self._begin: begin, self._end: begin + some, specs: parts})
        super().__init__(entries, specs, feeds)

    def read(self) -> list[tf.Tensor]:
        """Reads the rows that the feeds select."""
        if self._old is not None:
            return self._old.read(self._begin, self._end)
        # Rows are gathered, because reading a variable with sparse updates would first copy the whole variable.
        with tf.device(self._variables[0].device):
            return [variable.sparse_read(tf.range(self._begin, self._end)) for variable in self._variables]

    def write(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        """Assigns the rows that the feeds select; the variables must be initialized."""
        with tf.device(self._variables[0].device):
            rows = tf.range(self._begin, self._end)
            return tf.group(*[scatter_rows(v, rows, value) for v, value in zip(self._variables, values, strict=True)])


class JoinedChunk(Chunk):
    """Some or all slices of one variable of a dtype outside SLICED_DTYPES, which is whole in the file.

    The caller's device holds the whole variable, as every worker does in a step.  Each slice is one message.
    """

    def __init__(self, entries: Sequence[CheckpointEntry]) -> None:
        super().__init__(entries[:1], [""], [{}])
        self.ps = None
        self._slices = sorted(((entry.begin, entry.variable) for entry in entries), key=lambda pair: pair[0])

    def read(self) -> list[tf.Tensor]:
        """Reads the whole value; the chunk must have all slices."""
        return [tf.concat([variable.read_value() for _, variable in self._slices], 0)]

    def write(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        """Assigns to each slice its rows of the whole value."""
        return tf.group(
            *[
                variable.assign(values[0][begin : begin + variable.shape[0]], read_value=False)
                for begin, variable in self._slices
            ]
        )


def split_into_chunks(entries: Sequence[CheckpointEntry], limit: int) -> list[Chunk]:
    """Splits variables into chunks of at most `limit` bytes, each of one ps.

    A single row, or a variable of a dtype outside SLICED_DTYPES, may be larger than `limit`.
    """
    joined: dict[str, list[CheckpointEntry]] = {}
    for entry in (entry for entry in entries if entry.slice_spec and not _may_be_sliced(entry)):
        joined.setdefault(entry.key, []).append(entry)
    others = [entry for entry in entries if entry.key not in joined]
    return [
        *map(JoinedChunk, joined.values()),
        *(chunk for some in entries_by_ps(others).values() for chunk in _limited_chunks(some, limit)),
    ]


def entries_by_ps(entries: Sequence[CheckpointEntry]) -> dict[int, list[CheckpointEntry]]:
    """Returns ps to the entries of its variables."""
    found: dict[int, list[CheckpointEntry]] = {}
    for entry in entries:
        found.setdefault(ps_index(entry.variable), []).append(entry)
    return found


def _may_be_sliced(entry: CheckpointEntry) -> bool:
    return entry.variable.dtype.base_dtype in SLICED_DTYPES


def _limited_chunks(entries: Sequence[CheckpointEntry], limit: int) -> list[Chunk]:
    chunks: list[Chunk] = []
    group: list[CheckpointEntry] = []
    room = limit
    for entry in entries:
        shape = entry.variable.shape.as_list()
        total = variable_bytes(entry.variable)
        if total > limit and shape and _may_be_sliced(entry):
            chunks.append(RowChunk([entry], limit))
            continue
        if total > room and group:
            chunks.append(WholeChunk(group))
            group, room = [], limit
        group.append(entry)
        room -= total
    return [*chunks, WholeChunk(group)] if group else chunks
