"""Rules for stale gradients: those whose values were pulled some updates ago.

    rules = stale_gradient_rules(job)
    Asynchronous(rules=rules)

An update mode asks every rule, and knows none of them.  A new rule is one class here and its flag.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ps_train.config.job import Job
from ps_train.engine.transport.sparse_mask import is_mask
from ps_train.engine.updates.base import Replica
from ps_train.engine.variables.precision import widen
from ps_train.engine.variables.variables import zeros_variable


class StaleGradientRule:
    """A rule for stale gradients.  Its methods add operations on the ps; those of this class change nothing."""

    def pulled(self, name: str, value: tf.Tensor, replica: Replica) -> tf.Tensor:
        """Takes in a slice's value that a replica pulls; returns the value, after all that must precede its use."""
        return value

    def corrected(
        self, gradients: dict[str, Any], values: Mapping[str, Any], rows: Mapping[str, tf.Tensor]
    ) -> dict[str, Any]:
        """Returns the gradients to apply.

        Args:
          gradients: slice name to gradient, IndexedSlices for tables; also the masks.
          values: slice name to variable.
          rows: slice name of a table to the rows that were pulled, one for each row of its gradient.
        """
        return gradients

    def accepts(self, staleness: tf.Tensor) -> tf.Tensor | None:
        """Returns whether a gradient of this staleness is used, bool scalar; None: always."""
        return None

    def lr_divisor(self, staleness: tf.Tensor) -> tf.Tensor | None:
        """Returns the divisor of the learning rate, float32 scalar; None: 1."""
        return None


class MaxStaleness(StaleGradientRule):
    """Leaves out older gradients.

    Args:
      most: the largest staleness of a gradient that is used.
    """

    def __init__(self, most: int) -> None:
        self._most = most

    def accepts(self, staleness: tf.Tensor) -> tf.Tensor:
        """Returns whether the gradient is not older."""
        return staleness <= self._most


class DividedRate(StaleGradientRule):
    """Divides the learning rate by the staleness, where that is above 1.

    Zhang et al. 2016, "Staleness-aware Async-SGD for Distributed Deep Learning".
    """

    def lr_divisor(self, staleness: tf.Tensor) -> tf.Tensor:
        """Returns the staleness."""
        return tf.cast(tf.maximum(staleness, 1), tf.float32)


class DelayCompensation(StaleGradientRule):
    """Adds the estimated change of the gradient since the pull: g + strength g g (w - w_pulled).

    DC-ASGD: Zheng et al. 2017, "Asynchronous Stochastic Gradient Descent with Delay Compensation".  Each ps keeps the
    values that each worker pulled last.

    Args:
      strength: the lambda of the paper.
    """

    def __init__(self, strength: float) -> None:
        self._strength = strength
        self._kept: dict[str, Any] = {}

    def pulled(self, name: str, value: tf.Tensor, replica: Replica) -> tf.Tensor:
        """Keeps the value in a second variable on the same ps."""
        with tf.control_dependencies(None):
            kept = zeros_variable(f"ps_train/pulled_{replica.index}/{name}", value.dtype, value.shape)
        self._kept[name] = kept
        # The identity carries the dependency, which would vanish with a reshape when that is optimized away.
        with tf.control_dependencies([kept.assign(value, read_value=False)]):
            return tf.identity(value)

    def corrected(
        self, gradients: dict[str, Any], values: Mapping[str, Any], rows: Mapping[str, tf.Tensor]
    ) -> dict[str, Any]:
        """Corrects every gradient."""
        return {name: self._corrected(name, gradient, values, rows) for name, gradient in gradients.items()}

    def _corrected(self, name: str, gradient: Any, values: Mapping[str, Any], rows: Mapping[str, tf.Tensor]) -> Any:
        if is_mask(name):
            return gradient
        if isinstance(gradient, tf.IndexedSlices):  # of a table, whose pulled rows are still known in this step
            g, moved = gradient.values, values[name].sparse_read(gradient.indices) - rows[name]
            return tf.IndexedSlices(self._compensated(g, moved), gradient.indices, gradient.dense_shape)
        moved = widen(values[name].read_value()) - widen(self._kept[name].read_value())
        return tf.cast(self._compensated(widen(gradient), moved), gradient.dtype)

    def _compensated(self, gradient: tf.Tensor, moved: tf.Tensor) -> tf.Tensor:
        return gradient + self._strength * tf.square(gradient) * moved


def stale_gradient_rules(job: Job) -> list[StaleGradientRule]:
    """Returns the rules that the job asks for."""
    rules: list[StaleGradientRule] = []
    if job.delay_compensation:
        rules.append(DelayCompensation(job.delay_compensation))
    if job.divide_lr_by_staleness:
        rules.append(DividedRate())
    if job.max_staleness is not None:
        rules.append(MaxStaleness(job.max_staleness))
    return rules
