"""A second copy of stored variables, each on the ps of the first.

    shadows = Shadows(step.stored)
    session.run(shadows.copy)           # while nothing changes them
    ...                                 # read `shadows.stored`, while training goes on
    session.run(shadows.drop)

A dense variable is not even copied at that moment: TensorFlow lets both share their memory until one of them changes.
Between `drop` and the next `copy` there is no second copy.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.placement.variables import CheckpointEntry, ps_index, variable_bytes


class ShadowCopies:
    """Args: `stored`: what is copied.

    Attributes:
      stored: the copies, by the same keys.
    """

    def __init__(self, stored: Sequence[CheckpointEntry]) -> None:
        self.stored = [dataclasses.replace(one, variable=_shadow_variable(one.variable)) for one in stored]
        copied, dropped = [], []
        for one, other in zip(stored, self.stored, strict=True):
            with tf.device(one.variable.device):
                copied.append(other.variable.assign(one.variable.read_value(), read_value=False))
                dropped.append(tf.raw_ops.DestroyResourceOp(resource=other.variable.handle))
        self.copy, self.drop = tf.group(*copied), tf.group(*dropped)


def bytes_by_ps(stored: Sequence[CheckpointEntry]) -> dict[int, int]:
    """What they take on each ps."""
    found: collections.Counter[int] = collections.Counter()
    for one in stored:
        found[ps_index(one.variable)] += variable_bytes(one.variable)
    return dict(found)


def _shadow_variable(variable: Any) -> Any:
    """In no collection: nobody initialises it, or waits for it to be."""
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
