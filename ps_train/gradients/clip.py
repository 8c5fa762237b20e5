"""Clipping: by value, by each variable's norm, by the norm of all together.

Pascanu et al. 2013, "On the difficulty of training recurrent neural networks", for the last.  A worker has the whole
gradient of every variable, so the global norm is that over all ps.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from ps_train.gradients import Gradients, Transform


def by_value(limit: float) -> Transform:
    """Every element to -limit..limit."""

    def clip(gradients: Mapping[str, tf.Tensor], values: Mapping[str, tf.Tensor]) -> Gradients:
        return {name: tf.clip_by_value(gradient, -limit, limit) for name, gradient in gradients.items()}

    return clip


def by_norm(limit: float) -> Transform:
    """Every variable's gradient to an L2 norm of `limit` at most."""

    def clip(gradients: Mapping[str, tf.Tensor], values: Mapping[str, tf.Tensor]) -> Gradients:
        return {name: _clipped(gradient, limit) for name, gradient in gradients.items()}

    return clip


def by_global_norm(limit: float) -> Transform:
    """All gradients by one factor, so that the L2 norm of all together is `limit` at most."""

    def clip(gradients: Mapping[str, tf.Tensor], values: Mapping[str, tf.Tensor]) -> Gradients:
        found = list(gradients.values())
        wide = max((_wide(gradient) for gradient in found), key=lambda dtype: dtype.size)
        norm = tf.linalg.global_norm([tf.cast(gradient, wide) for gradient in found])
        clipped, _ = tf.clip_by_global_norm(found, limit, use_norm=norm)
        return dict(zip(gradients, clipped, strict=True))

    return clip


def _clipped(gradient: tf.Tensor, limit: float) -> tf.Tensor:
    return tf.cast(tf.clip_by_norm(tf.cast(gradient, _wide(gradient)), limit), gradient.dtype)


def _wide(gradient: tf.Tensor) -> tf.DType:
    """The dtype of its norm: squares of half precision overflow."""
    return tf.float64 if gradient.dtype == tf.float64 else tf.float32
