"""The function `tf.contrib.layers.optimize_loss`.

train_op = optimize_loss(loss, global_step, learning_rate=0.1, optimizer="Adam", clip_gradients=5.0)
"""

from __future__ import annotations

import dataclasses
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


@dataclasses.dataclass
class _OptimizeLoss:
    """Arguments of `optimize_loss`."""

    loss: Any
    global_step: Any
    learning_rate: Any
    optimizer: Any
    gradient_noise_scale: Any = None
    gradient_multipliers: Mapping[Any, Any] | None = None
    clip_gradients: Any = None
    learning_rate_decay_fn: Any = None
    update_ops: Any = None
    variables: Any = None
    name: str | None = None
    summaries: Any = None
    colocate_gradients_with_ops: bool = False
    increment_global_step: bool = True

    def train_op(self) -> Any:
        if self.gradient_noise_scale is not None:
            raise ValueError("gradient_noise_scale of optimize_loss is not supported: leave it out")
        with v1.variable_scope(self.name, "OptimizeLoss", [self.loss, self.global_step]):
            step = v1.train.get_global_step() if self.global_step is None else self.global_step
            updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS) if self.update_ops is None else self.update_ops
            loss = self.loss
            if updates:
                with tf.control_dependencies(list(updates)):
                    loss = tf.identity(loss)
            optimizer = self._optimizer(step)
            variables = v1.trainable_variables() if self.variables is None else self.variables
            pairs = optimizer.compute_gradients(
                loss, variables, colocate_gradients_with_ops=self.colocate_gradients_with_ops
            )
            pairs = self._clipped(self._multiplied(pairs))
            if self.summaries is None or "loss" in self.summaries:
                v1.summary.scalar("loss", loss)
            apply = optimizer.apply_gradients(pairs, step if self.increment_global_step else None, name="train")
            with tf.control_dependencies([apply]):
                return tf.identity(loss)

    def _optimizer(self, step: Any) -> Any:
        rate = self.learning_rate
        if rate is not None and self.learning_rate_decay_fn is not None:
            if step is None:
                raise ValueError("learning_rate_decay_fn of optimize_loss needs a global step: create one")
            rate = self.learning_rate_decay_fn(rate, step)
        if isinstance(self.optimizer, str):
            if self.optimizer not in OPTIMIZERS:
                known = ", ".join(OPTIMIZERS)
                raise ValueError(f"optimizer={self.optimizer!r} of optimize_loss is not known: use one of {known}")
            return OPTIMIZERS[self.optimizer](learning_rate=rate)
        if isinstance(self.optimizer, v1.train.Optimizer):
            return self.optimizer
        return self.optimizer() if rate is None else self.optimizer(rate)

    def _multiplied(self, pairs: list[Any]) -> list[Any]:
        """Returns the pairs with gradients times the factor of their variable, given by it or by its name."""
        factors = self.gradient_multipliers or {}
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

    def _clipped(self, pairs: list[Any]) -> list[Any]:
        if self.clip_gradients is None:
            return pairs
        if callable(self.clip_gradients):
            return list(self.clip_gradients(pairs))
        gradients, variables = zip(*pairs, strict=True)
        return list(zip(tf.clip_by_global_norm(gradients, self.clip_gradients)[0], variables, strict=True))


def optimize_loss(*arguments: Any, **options: Any) -> Any:
    """Returns a tensor of the loss whose evaluation makes a training step.

    Raises:
      ValueError: the optimizer is not known, or `gradient_noise_scale` is given.
    """
    return _OptimizeLoss(*arguments, **options).train_op()
