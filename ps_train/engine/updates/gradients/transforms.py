"""Gradient clipping: by value, by each variable's norm, by the global norm.

Clipping by global norm: Pascanu et al. 2013, "On the difficulty of training recurrent neural networks".  A worker has
the whole gradient of every variable, so the global norm covers all ps.  Norms of float64 gradients are computed in
float64, all others in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf

from ps_train.config.job import Job
from ps_train.engine.variables.precision import widen

Gradients = dict[str, tf.Tensor]
"""Map of variable name to whole, dense gradient."""

Transform = Callable[[Mapping[str, tf.Tensor], Mapping[str, tf.Tensor]], Gradients]
"""Function of gradients and pulled values, both by variable name; returns the new gradients."""


def l2(strength: float) -> Transform:
    """Returns a transform that adds `strength` times the weights to the gradients."""

    def add(gradients: Mapping[str, tf.Tensor], values: Mapping[str, tf.Tensor]) -> Gradients:
        return {name: tf.cast(widen(g) + strength * widen(values[name]), g.dtype) for name, g in gradients.items()}

    return add


def transforms_of(job: Job) -> list[Transform]:
    """Returns the transforms that the job asks for, in this order: L2, clipping by value, by norm, by global norm."""
    chosen: list[Transform] = []
    if job.l2:
        chosen.append(l2(job.l2))
    if job.clip_value is not None:
        chosen.append(by_value(job.clip_value))
    if job.clip_norm is not None:
        chosen.append(by_norm(job.clip_norm))
    if job.clip_global_norm is not None:
        chosen.append(by_global_norm(job.clip_global_norm))
    return chosen


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
