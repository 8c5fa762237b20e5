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

from ps_train.engine.checkpoint.saving_graph import StoredVariable, shared_name
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
        self.entries = [dataclasses.replace(entry, variable=_shadow_of(entry.variable)) for entry in entries]
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


def _shadow_of(variable: Any) -> StoredVariable:
    """Returns a second copy, which no process initializes or waits for."""
    return StoredVariable(variable, f"ps_train/shadow/{shared_name(variable)}")
