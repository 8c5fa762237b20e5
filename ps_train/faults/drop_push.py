"""Random loss of pushes, for --inject_fault=drop_push.  A dropped push arrives empty and marked as lost."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def drop_pushes(share: float, seed: int, vectors: Sequence[tf.Tensor], marked: Sequence[bool]) -> list[tf.Tensor]:
    """Returns the same vectors, or at random zeros in place of all of them.

    Args:
      share: share of the pushes that are dropped, 0..1.
      seed: seed of the random choice.
      vectors: the vectors of one push.
      marked: for each vector whether its last element is set to 1 where the push is dropped, else 0.
    """
    lost = tf.random.uniform([], seed=seed) < share
    return [_emptied(lost, vector, mark) for vector, mark in zip(vectors, marked, strict=True)]


def _emptied(lost: tf.Tensor, vector: tf.Tensor, mark: bool) -> tf.Tensor:
    kept = tf.where(lost, tf.zeros_like(vector), vector)
    return tf.concat([kept[:-1], tf.cast(lost, vector.dtype)[tf.newaxis]], 0) if mark else kept
