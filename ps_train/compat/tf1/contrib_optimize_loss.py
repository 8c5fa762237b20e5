"""The function `tf.contrib.layers.optimize_loss`.

train_op = optimize_loss(loss, global_step, learning_rate=0.1, optimizer="Adam", clip_gradients=5.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

OPTIMIZERS = {
    "Adagrad": v1.train.AdagradOptimizer,
    "Adam": v1.train.AdamOptimizer,
    "Ftrl": v1.train.FtrlOptimizer,
    "Momentum": lambda learning_rate: v1.train.MomentumOptimizer(learning_rate, 0.9),
    "RMSProp": v1.train.RMSPropOptimizer,
    "SGD": v1.train.GradientDescentOptimizer,
}
"""The names that `optimize_loss` knows."""


def optimize_loss(
    loss: Any,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: Any = None,
    gradient_multipliers: Mapping[Any, Any] | None = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Any = None,
    update_ops: Any = None,
    variables: Any = None,
    name: str | None = None,
    summaries: Any = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> Any:
    """Returns a tensor of the loss whose evaluation makes a training step.

    Raises:
      ValueError: the optimizer is not known, or `gradient_noise_scale` is given.
    """
    if gradient_noise_scale is not None:
        raise ValueError("gradient_noise_scale of optimize_loss is not supported: leave it out")
    with v1.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        step = v1.train.get_global_step() if global_step is None else global_step
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
        if updates:
            with tf.control_dependencies(list(updates)):
                loss = tf.identity(loss)
        rate = learning_rate
        if rate is not None and learning_rate_decay_fn is not None:
            if step is None:
                raise ValueError("learning_rate_decay_fn of optimize_loss needs a global step: create one")
            rate = learning_rate_decay_fn(rate, step)
        made = _made(optimizer, rate)
        trained = v1.trainable_variables() if variables is None else variables
        pairs = made.compute_gradients(loss, trained, colocate_gradients_with_ops=colocate_gradients_with_ops)
        pairs = _clipped(_multiplied(pairs, gradient_multipliers or {}), clip_gradients)
        if summaries is None or "loss" in summaries:
            v1.summary.scalar("loss", loss)
        apply = made.apply_gradients(pairs, step if increment_global_step else None, name="train")
        with tf.control_dependencies([apply]):
            return tf.identity(loss)


def _made(optimizer: Any, rate: Any) -> Any:
    """Returns the optimizer: one that is given by its name, as a function or class, or as it is."""
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZERS:
            known = ", ".join(OPTIMIZERS)
            raise ValueError(f"optimizer={optimizer!r} of optimize_loss is not known: use one of {known}")
        return OPTIMIZERS[optimizer](learning_rate=rate)
    if isinstance(optimizer, v1.train.Optimizer):
        return optimizer
    return optimizer() if rate is None else optimizer(rate)


def _multiplied(pairs: list[Any], factors: Mapping[Any, Any]) -> list[Any]:
    """Returns the pairs with gradients times the factor of their variable, given by it or by its name."""
    by_name = {getattr(key, "name", key): factor for key, factor in factors.items()}
    found = []
    for gradient, variable in pairs:
        factor = by_name.get(variable.name, by_name.get(variable.op.name))
        if gradient is not None and factor is not None:
            if isinstance(gradient, tf.IndexedSlices):
                gradient = tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
            else:
                gradient = gradient * factor
        found.append((gradient, variable))
    return found


def _clipped(pairs: list[Any], clip: Any) -> list[Any]:
    """Returns the pairs with gradients clipped by their global norm, or by a function of the pairs."""
    if clip is None:
        return pairs
    if callable(clip):
        return list(clip(pairs))
    gradients, variables = zip(*pairs, strict=True)
    return list(zip(tf.clip_by_global_norm(gradients, clip)[0], variables, strict=True))
