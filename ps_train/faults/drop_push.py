"""Pushes that are lost on their way, at random: what --inject=drop_push does.  They arrive empty, marked as lost."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


def drop_pushes(share: float, seed: int, vectors: Sequence[tf.Tensor], marked: Sequence[bool]) -> list[tf.Tensor]:
    """The same vectors, or zeros in the place of all of them.

    Args:
      share: of all pushes, how many are lost.
      marked: of each vector whether its last element is to say so (1).
    """
    lost = tf.random.uniform([], seed=seed) < share
    return [_emptied(lost, vector, mark) for vector, mark in zip(vectors, marked, strict=True)]


def _emptied(lost: tf.Tensor, vector: tf.Tensor, mark: bool) -> tf.Tensor:
    kept = tf.where(lost, tf.zeros_like(vector), vector)
    return tf.concat([kept[:-1], tf.cast(lost, vector.dtype)[tf.newaxis]], 0) if mark else kept
