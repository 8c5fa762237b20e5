"""The function `tf.contrib.seq2seq.sequence_loss`: cross entropy of sequences, each position with a weight.

loss = sequence_loss(logits, targets, tf.sequence_mask(lengths, dtype=tf.float32))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

__all__ = ["sequence_loss"]

_TINY = 1e-12


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Returns the weighted cross entropy of sequences, averaged over positions, examples or both.

    Args:
      logits: float [batch, positions, classes].
      targets: int [batch, positions], the right classes.
      weights: float [batch, positions].
      average_across_timesteps: whether the result is the mean over positions.
      average_across_batch: the same over examples.
      softmax_loss_function: of `labels` and `logits`; None: the sparse softmax cross entropy.
      name: of the operations.

    Raises:
      ValueError: a shape has another number of dimensions.
    """
    for what, value, rank in (("logits", logits, 3), ("targets", targets, 2), ("weights", weights, 2)):
        if value.shape.rank != rank:
            raise ValueError(f"{what} of sequence_loss have the shape {value.shape}: use {rank} dimensions")
    loss = softmax_loss_function or v1.nn.sparse_softmax_cross_entropy_with_logits
    with v1.name_scope(name, "sequence_loss", [logits, targets, weights]):
        flat = tf.reshape(logits, [-1, tf.shape(logits)[2]])
        crossed = tf.reshape(loss(labels=tf.reshape(targets, [-1]), logits=flat), tf.shape(targets)) * weights
        if average_across_timesteps and average_across_batch:
            return tf.reduce_sum(crossed) / (tf.reduce_sum(weights) + _TINY)
        for axis, is_averaged in ((1, average_across_timesteps), (0, average_across_batch)):
            if is_averaged:
                return tf.reduce_sum(crossed, axis) / (tf.reduce_sum(weights, axis) + _TINY)
        return crossed
