"""The graph that saves and restores, which has the stored variables, and not the step.

    saving = SavingGraph()
    with saving.graph.as_default():
        checkpoints = Checkpoints(..., entries=saving.entries(step.ps.entries))
    checkpoints.save(session)           # a session of the step's graph, which opens one of this graph beside it

TensorFlow prepares a new call from a copy of the session's whole graph, and no other call of that session begins
meanwhile.  A checkpoint has about fifteen calls, some of which hold the pushes of all workers.  In a graph of their own
they are prepared in a fraction of the time, and no step waits for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ps_train.engine.variables.old_rows import OldRows
from ps_train.engine.variables.variables import CheckpointEntry, read_in_one


class SavingGraph:
    """A graph with the variables of another one."""

    def __init__(self) -> None:
        self.graph = tf.Graph()
        self._known: dict[int, tuple[Any, StoredVariable]] = {}

    def variable(self, variable: Any) -> StoredVariable:
        """Returns the variable of this graph that has the same value as one of another graph."""
        if id(variable) not in self._known:
            with self.graph.as_default():
                self._known[id(variable)] = variable, StoredVariable(variable, shared_name(variable))
        return self._known[id(variable)][1]

    def entries(self, entries: Sequence[CheckpointEntry]) -> list[CheckpointEntry]:
        """Returns the entries with the variables of this graph."""
        return [dataclasses.replace(entry, variable=self.variable(entry.variable)) for entry in entries]

    def old_rows(self, old_rows: Sequence[OldRows]) -> list[OldRows]:
        """Returns the old rows with the variables of this graph."""
        return [OldRows(old.name, [self.variable(one) for one in old.variables]) for old in old_rows]


def shared_name(variable: Any) -> str:
    """Returns the name by which a variable is found on its ps."""
    return str(variable.handle.op.get_attr("shared_name").decode())


class StoredVariable:
    """A variable on a ps, of which another graph may have the initial value; in no collection.

    One of TensorFlow's variables has five more operations.

    Args:
      like: a variable with the same shape, dtype and device.
      name: the name by which it is found there.
    """

    def __init__(self, like: Any, name: str) -> None:
        self.shape, self.dtype, self.device = like.shape, like.dtype.base_dtype, like.device
        with tf.device(self.device):
            self.handle = tf.raw_ops.VarHandleOp(dtype=self.dtype, shape=self.shape, shared_name=name, name=name)

    @property
    def op(self) -> tf.Operation:
        """The operation of the handle."""
        return self.handle.op

    def read_value(self) -> tf.Tensor:
        """Reads the value, on its ps."""
        return read_in_one(self)

    def sparse_read(self, indices: Any) -> tf.Tensor:
        """Reads some rows, on their ps."""
        with tf.device(self.device):
            return tf.raw_ops.ResourceGather(resource=self.handle, indices=indices, dtype=self.dtype)

    def assign(self, value: tf.Tensor, read_value: bool = False) -> tf.Operation:
        """Assigns a value of the same shape; returns the operation, as of TensorFlow's without `read_value`."""
        del read_value
        with tf.device(self.device):
            return tf.raw_ops.AssignVariableOp(resource=self.handle, value=value)
