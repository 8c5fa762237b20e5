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
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.variables import CheckpointEntry, ps_index, variable_bytes


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
        self.entries = [dataclasses.replace(entry, variable=_shadow_variable(entry.variable)) for entry in entries]
        copied, dropped = [], []
        for entry, shadow in zip(entries, self.entries, strict=True):
            with tf.device(entry.variable.device):
                copied.append(shadow.variable.assign(entry.variable.read_value(), read_value=False))
                dropped.append(tf.raw_ops.DestroyResourceOp(resource=shadow.variable.handle))
        self.copy, self.drop = tf.group(*copied), tf.group(*dropped)


def bytes_by_ps(entries: Sequence[CheckpointEntry]) -> dict[int, int]:
    """Returns ps to the bytes that the variables take there."""
    found: collections.Counter[int] = collections.Counter()
    for entry in entries:
        found[ps_index(entry.variable)] += variable_bytes(entry.variable)
    return dict(found)


def _shadow_variable(variable: Any) -> Any:
    """Makes a variable outside the usual collections, so that no process initializes it or waits for that."""
    with tf.device(variable.device):
        return v1.get_variable(
            f"ps_train/shadow/{variable.op.name}",
            variable.shape,
            variable.dtype.base_dtype,
            v1.zeros_initializer(),
            trainable=False,
            collections=["ps_train/shadow"],
            use_resource=True,
        )
