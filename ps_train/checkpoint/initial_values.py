"""Initial values that the chief sends to the ps, because only it may have them: the rows that a table begins with.

    values = InitialValues(model_variables, plan, variables, device, seed=1)
    values.write(session)                   # after the variables are initialized

The values are fed in parts, so they are in no graph and may be larger than TensorFlow's messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.calls import CHUNK_CALL
from ps_train.embeddings.given_rows import indices_at
from ps_train.embeddings.row_update import scatter_rows
from ps_train.placement.initialization import CHUNK_BYTES
from ps_train.placement.plan import Plan, Slice
from ps_train.placement.trace import ModelVariables, VariableTrace
from ps_train.placement.variables import ps_device


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
        with tf.device(device), tf.device("/device:CPU:0"):
            self._tables = [
                _GivenRows(variable, plan.slices_of(name), variables)
                for name, variable in model_variables.variables.items()
                if variable.given is not None
            ]

    def write(self, session: v1.Session) -> None:
        """Writes the values into the variables, which are initialized.

        Raises:
          ModelError: the rows that a function gives do not fit its table.
        """
        for table in self._tables:
            table.write(session, self._seed)


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
        rows = self._variable.given_rows(seed)
        most = max(1, CHUNK_BYTES * len(rows) // rows.nbytes)
        for piece, operation in self._writes:
            for first in range(0, piece.shape[0], most):
                indices = indices_at(table, piece.begin + first, min(most, piece.shape[0] - first))
                session.run(operation, {self._first: first, self._rows: rows[indices]}, CHUNK_CALL)
