"""Second copies of stored variables, each on the ps of its original.

    shadows = ShadowCopies(step.ps.entries)
    session.run(shadows.copy)           # while no push changes the variables
    ...                                 # read `shadows.entries`, while training goes on
    session.run(shadows.drop)

A dense variable is not copied at once: both variables share their memory in TensorFlow until one of them changes.
Between `drop` and the next `copy` the second copy takes no memory.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ps_train.engine.variables.variables import CheckpointEntry, ps_index, read_in_one, variable_bytes


class ShadowCopies:
    """Copies of stored variables.

    Args:
      entries: the variables to copy.

    Attributes:
      entries: the copies, under the same keys.
      copy: operation that makes the copies.
      drop: operation that frees their memory.
    """

    def __init__(self, entries: Sequence[CheckpointEntry]) -> None:
        self.entries = [dataclasses.replace(entry, variable=_Shadow(entry.variable)) for entry in entries]
        copied, dropped = [], []
        for entry, shadow in zip(entries, self.entries, strict=True):
            with tf.device(entry.variable.device):
                value = read_in_one(entry.variable)
                copied.append(tf.raw_ops.AssignVariableOp(resource=shadow.variable.handle, value=value))
                dropped.append(tf.raw_ops.DestroyResourceOp(resource=shadow.variable.handle))
        self.copy, self.drop = tf.group(*copied), tf.group(*dropped)


def bytes_by_ps(entries: Sequence[CheckpointEntry]) -> dict[int, int]:
    """Returns ps to the bytes that the variables take there."""
    found: collections.Counter[int] = collections.Counter()
    for entry in entries:
        found[ps_index(entry.variable)] += variable_bytes(entry.variable)
    return dict(found)


class _Shadow:
    """A second copy of a variable, which has no initial value and is in no collection.

    One of TensorFlow's variables has five more operations, among them an initial value.  No process initializes a copy
    or waits for that.
    """

    def __init__(self, variable: Any) -> None:
        self.shape, self.dtype, self.device = variable.shape, variable.dtype.base_dtype, variable.device
        name = f"ps_train/shadow/{variable.op.name}"
        with tf.device(self.device):
            self.handle = tf.raw_ops.VarHandleOp(dtype=self.dtype, shape=self.shape, shared_name=name, name=name)

    @property
    def op(self) -> tf.Operation:
        """The operation of the handle, with the copy's name."""
        return self.handle.op

    def read_value(self) -> tf.Tensor:
        """Reads the copy, on its ps."""
        return read_in_one(self)

    def sparse_read(self, indices: Any) -> tf.Tensor:
        """Reads some rows of the copy, on its ps."""
        with tf.device(self.device):
            return tf.raw_ops.ResourceGather(resource=self.handle, indices=indices, dtype=self.dtype)
