"""Initial values that the chief sends to the ps, because only it may have them.

They are the rows that a table begins with, and values of other checkpoints (`tf.train.init_from_checkpoint`).

    values = InitialValues(model_variables, plan, variables, device, seed=1)
    values.write(session)                   # after the variables are initialized

The values are fed in parts, so they are in no graph and may be larger than TensorFlow's messages.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.sessions.calls import CHUNK_CALL
from ps_train.engine.checkpoint.chunked_io import Chunk, split_into_chunks
from ps_train.engine.checkpoint.contents import DAMAGED_ERRORS, damaged_error
from ps_train.engine.checkpoint.glob_free import glob_free
from ps_train.engine.variables.initialization import CHUNK_BYTES
from ps_train.engine.variables.plan import Plan, Slice
from ps_train.engine.variables.trace import ModelVariables, VariableTrace
from ps_train.engine.variables.variables import CheckpointEntry, ps_device, slice_spec
from ps_train.modeling.tables.given_rows import indices_at
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE
from ps_train.modeling.tables.row_allocator import scatter_rows

log = logging.getLogger(__name__)

_OF_PS_TRAIN = "ps_train/examples"
"""Key of every checkpoint that this package's engine writes; its tables have the order of `row_order.py`."""


class InitialValues:
    """The values and the operations that write them, in the default graph.

    Args:
      model_variables: the variables of the model.
      plan: the places of these variables.
      variables: slice name to variable.
      device: device of the chief.
      seed: the job's seed.
    """

    def __init__(
        self, model_variables: ModelVariables, plan: Plan, variables: Mapping[str, Any], device: str, seed: int
    ) -> None:
        self._seed = seed
        by_id = {name for name, variable in model_variables.variables.items() if _is_by_id(variable)}
        with tf.device(device), tf.device("/device:CPU:0"):
            self._tables = [
                _GivenRows(variable, plan.slices_of(name), variables)
                for name, variable in model_variables.variables.items()
                if variable.given is not None or name in by_id
            ]
            entries: dict[str, list[CheckpointEntry]] = {}
            for name, variable in model_variables.variables.items():
                if variable.checkpoint is not None and name not in by_id:
                    path, key = variable.checkpoint
                    entries.setdefault(path, []).extend(
                        CheckpointEntry(key, slice_spec(plan, piece), variables[piece.name])
                        for piece in plan.slices_of(name)
                    )
            self._checkpoints = [_OtherCheckpoint(path, some) for path, some in entries.items()]
        self._after = tf.group(*v1.get_collection(AFTER_RESTORE))

    def write(self, session: v1.Session) -> None:
        """Writes the values into the variables, which are initialized.

        Raises:
          ModelError: the rows that a function gives do not fit its table, or a checkpoint cannot be read.
        """
        for table in self._tables:
            table.write(session, self._seed)
        for checkpoint in self._checkpoints:
            checkpoint.write(session)
        if self._checkpoints:
            session.run(self._after, options=CHUNK_CALL)


class _OtherCheckpoint:
    """The values of one checkpoint of another training."""

    def __init__(self, path: str, entries: list[CheckpointEntry]) -> None:
        self._path, self._file = path, v1.placeholder(tf.string, [], "other_checkpoint")
        self._runs = [run for chunk in split_into_chunks(entries, CHUNK_BYTES) for run in self._restoring(chunk)]

    def _restoring(self, chunk: Chunk) -> list[tuple[tf.Operation, Mapping[Any, Any]]]:
        values = tf.raw_ops.RestoreV2(
            prefix=self._file,
            tensor_names=[entry.key for entry in chunk.entries],
            shape_and_slices=chunk.specs,
            dtypes=[entry.variable.dtype.base_dtype for entry in chunk.entries],
        )
        written = chunk.write(values)
        return [(written, feeds) for feeds in chunk.feeds]

    def write(self, session: v1.Session) -> None:
        try:
            with glob_free(self._path) as readable:
                for operation, feeds in self._runs:
                    session.run(operation, {**feeds, self._file: readable}, CHUNK_CALL)
        except DAMAGED_ERRORS as error:
            raise damaged_error(self._path, error) from None


def _is_by_id(variable: VariableTrace) -> bool:
    """Returns True if a table begins with a tensor whose row i is that of id i: one of TensorFlow's own."""
    table, value = variable.table, variable.checkpoint
    if table is None or value is None or table.has_natural_order:
        return False
    of_ps_train = tf.train.load_checkpoint(value.path).has_tensor(_OF_PS_TRAIN)
    order = "in ps_train's order of rows" if of_ps_train else "row i as that of id i"
    log.info("table %s takes %s of checkpoint %s, %s", table.name, value.key, value.path, order)
    return not of_ps_train


class _GivenRows:
    """The rows that one table begins with."""

    def __init__(self, variable: VariableTrace, slices: list[Slice], variables: Mapping[str, Any]) -> None:
        self._variable = variable
        self._first = v1.placeholder(tf.int64, [], "first_row")
        self._rows = v1.placeholder(tf.float32, [None, *variable.spec.shape[1:]], "given_rows")
        self._writes = [(piece, self._write(variables[piece.name], piece)) for piece in slices]

    def _write(self, variable: Any, piece: Slice) -> tf.Operation:
        with tf.device(ps_device(piece.ps)):
            count = tf.shape(self._rows, tf.int64)[0]
            return scatter_rows(variable, tf.range(self._first, self._first + count), self._rows)

    def write(self, session: v1.Session, seed: int) -> None:
        table = self._variable.table
        assert table is not None
        value = self._variable.checkpoint
        if value is None:
            rows = self._variable.given_rows(seed)
        else:
            rows = tf.train.load_checkpoint(value.path).get_tensor(value.key)
        most = max(1, CHUNK_BYTES * len(rows) // rows.nbytes)
        for piece, operation in self._writes:
            for first in range(0, piece.shape[0], most):
                indices = indices_at(table, piece.begin + first, min(most, piece.shape[0] - first))
                session.run(operation, {self._first: first, self._rows: rows[indices]}, CHUNK_CALL)
