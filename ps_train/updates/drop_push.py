"""Random loss of pushes, for --inject_fault=drop_push.  A dropped push arrives as zeros, which have no examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def drop_pushes(share: float, seed: int, vectors: Sequence[tf.Tensor], dropped: Any) -> list[tf.Tensor]:
    """Returns the same vectors, or at random zeros in place of all of them.

    Args:
      share: share of the pushes that are dropped, 0..1.
      seed: seed of the random choice.
      vectors: the vectors of one push.
      dropped: int64 variable to which each dropped push adds 1.
    """
    lost = tf.random.uniform([], seed=seed) < share
    with tf.device(dropped.device):
        count = dropped.assign_add(tf.cast(lost, tf.int64), read_value=False)
    with tf.control_dependencies([count]):
        return [tf.where(lost, tf.zeros_like(vector), vector) for vector in vectors]
