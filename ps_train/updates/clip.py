"""Gradient clipping: by value, by each variable's norm, by the global norm.

Clipping by global norm: Pascanu et al. 2013, "On the difficulty of training recurrent neural networks".  A worker has
the whole gradient of every variable, so the global norm covers all ps.  Norms of float64 gradients are computed in
float64, all others in float32.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from ps_train.runtime.precision import widen
from ps_train.updates.transform import Gradients, Transform


def by_value(limit: float) -> Transform:
    """Returns a transform that clips every element to -limit..limit."""

    def clip(gradients: Mapping[str, tf.Tensor], values: Mapping[str, tf.Tensor]) -> Gradients:
        return {name: tf.clip_by_value(gradient, -limit, limit) for name, gradient in gradients.items()}

    return clip


def by_norm(limit: float) -> Transform:
    """Returns a transform that scales each variable's gradient down to an L2 norm of at most `limit`."""

    def clip(gradients: Mapping[str, tf.Tensor], values: Mapping[str, tf.Tensor]) -> Gradients:
        return {name: tf.cast(tf.clip_by_norm(widen(g), limit), g.dtype) for name, g in gradients.items()}

    return clip


def by_global_norm(limit: float) -> Transform:
    """Returns a transform that scales all gradients by one factor, to a joint L2 norm of at most `limit`."""

    def clip(gradients: Mapping[str, tf.Tensor], values: Mapping[str, tf.Tensor]) -> Gradients:
        wide: dict[tf.DType, Gradients] = {}
        for name, gradient in gradients.items():
            one = widen(gradient)
            wide.setdefault(one.dtype, {})[name] = one
        norm = _norm([tf.linalg.global_norm(list(some.values())) for some in wide.values()])
        clipped: Gradients = {}
        for dtype, some in wide.items():
            scaled, _ = tf.clip_by_global_norm(list(some.values()), limit, use_norm=tf.cast(norm, dtype))
            clipped |= dict(zip(some, scaled, strict=True))
        return {name: tf.cast(clipped[name], gradient.dtype) for name, gradient in gradients.items()}

    return clip


def _norm(norms: list[tf.Tensor]) -> tf.Tensor:
    """Combines norms, one for each dtype, into their joint norm."""
    return norms[0] if len(norms) == 1 else tf.norm(tf.stack([tf.cast(norm, tf.float64) for norm in norms]))
