"""Writing: values of a checkpoint into the variables on the ps, in parts of bounded size.

target = Target(entries, device)                    # in the graph, before it is finalized
write(session, target, source, choice)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import CHUNK_CALL
from ps_train.engine.run_directory.checkpoint_contents import CHUNK_BYTES, SLICED_DTYPES, row_runs
from ps_train.engine.variables.variables import CheckpointEntry, on_worker, variable_bytes
from ps_train.modeling.tables.row_allocator import scatter_rows
from ps_train.saved.warm_start.choices import Beginning
from ps_train.saved.warm_start.source_checkpoint import SourceCheckpoint
from ps_train.saved.warm_start.table_routes import Array


class Target:
    """All slices of one key of a checkpoint, and the operations that write them.

    Args:
      entries: the slices, or the copies of a value that each ps has.
      device: device of the chief.

    Attributes:
      rows_at_once: number of rows that are written at once.
    """

    def __init__(self, entries: Sequence[CheckpointEntry], device: str) -> None:
        self._slices = [_Slice(entry, device) for entry in entries]
        self.rows_at_once = min(piece.rows_at_once for piece in self._slices)

    def write_rows(self, session: v1.Session, places: Array, values: Array) -> None:
        """Writes rows at places of the whole variable, int64 [n]."""
        for piece in self._slices:
            here = np.flatnonzero((places >= piece.begin) & (places < piece.begin + piece.rows))
            if len(here):
                piece.write_rows(session, places[here] - piece.begin, values[here])

    def write_all(self, session: v1.Session, read: Any) -> None:
        """Writes the whole variable; `read` returns rows from the first one and their number, or with -1 all."""
        for piece in self._slices:
            piece.write_all(session, read)


class _Slice:
    """A slice on its ps."""

    def __init__(self, entry: CheckpointEntry, device: str) -> None:
        variable = entry.variable
        shape, dtype = variable.shape.as_list(), variable.dtype.base_dtype
        self._is_sliced = bool(entry.slice_spec)
        self.begin = entry.begin
        self.rows = shape[0] if shape else 1
        self.rows_at_once = max(1, CHUNK_BYTES * self.rows // max(1, variable_bytes(variable)))
        with on_worker(device), tf.device("/device:CPU:0"):
            self._rows = v1.placeholder(tf.int64, [None], "warm_start_rows")
            self._values = v1.placeholder(dtype, [None, *shape[1:]] if shape else [], "warm_start_values")
            with tf.device(variable.device):
                self._assign = variable.assign(self._values, read_value=False)
                self._scatter = (
                    scatter_rows(variable, self._rows, self._values) if shape and dtype in SLICED_DTYPES else None
                )

    def write_rows(self, session: v1.Session, rows: Array, values: Array) -> None:
        session.run(self._scatter, {self._rows: rows, self._values: values}, CHUNK_CALL)

    def write_all(self, session: v1.Session, read: Any) -> None:
        if self._scatter is None or self.rows <= self.rows_at_once:
            value = read(self.begin, self.rows) if self._is_sliced else read(0, -1)
            session.run(self._assign, {self._values: value}, CHUNK_CALL)
            return
        for begin, count in row_runs(self.rows, self.rows_at_once):
            self.write_rows(session, np.arange(begin, begin + count), read(self.begin + begin, count))


def reader_of(value: Array) -> Callable[[int, int], Array]:
    """Returns a function that reads a value in memory, as `Target.write_all` takes it."""
    return lambda begin, count: value if count < 0 else value[begin : begin + count]


def write(session: v1.Session, target: Target, source: SourceCheckpoint, choice: Beginning) -> None:
    """Writes what a choice takes into a variable.

    Raises:
      DamagedCheckpointError: the checkpoint cannot be read.
    """

    def read(begin: int, count: int) -> Array:
        return source.read(choice.source, begin, count) if choice.read is None else choice.read(begin, count)

    if choice.route is None:
        target.write_all(session, read)
        return
    most = min(source.rows_at_once(choice.source), target.rows_at_once)
    for begin, count in row_runs(choice.route.source_rows, most):
        rows, places = choice.route.places(begin, count)
        if len(rows):
            target.write_rows(session, places, read(begin, count)[rows])
