"""Optimizers whose slots may begin anew in the middle of a job, as those of local steps do.

    allow_restarts(optimizer, is_own)

Two kinds need help.

- FTRL and AdagradDA do not move a value: they compute it anew from a sum of all gradients.  Where the sum begins anew,
  or others move the value, the value would be lost.  So each update first makes the sum that from which the optimizer
  computes the present value; where nobody else has written, it is that already.
- One that computes its corrections from the number of all updates, as those of Keras, counts its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import adagrad_da_terms, before_updates, ftrl_terms


@runtime_checkable
class CountsUpdates(Protocol):
    """An optimizer whose corrections follow the steps of the job, unless it is told to count."""

    def count_updates(self) -> None:
        """Makes it count its updates in a variable beside its slots, and follow that."""


def computes_from_slots(optimizer: Any) -> bool:
    """Returns True if the next update computes a value from slots alone, which are sums of all gradients."""
    return isinstance(optimizer, v1.train.FtrlOptimizer | v1.train.AdagradDAOptimizer)


def allow_restarts(optimizer: Any, is_own: Callable[[Any], bool]) -> None:
    """Makes an optimizer go on from the present values of variables with the slots that it has.

    Args:
      optimizer: the optimizer.
      is_own: returns False for a variable that comes with its slots.
    """

    def fitted(variable: Any) -> list[tf.Operation]:
        return [fit(optimizer, variable)] if is_own(variable) else []

    if isinstance(optimizer, CountsUpdates):
        optimizer.count_updates()
    if isinstance(optimizer, v1.train.FtrlOptimizer):
        fit = _fit_linear
    elif isinstance(optimizer, v1.train.AdagradDAOptimizer):
        fit = _fit_sum
    else:
        return
    before_updates(optimizer, fitted)


def _fit_linear(optimizer: Any, variable: Any) -> tf.Operation:
    """Fits FTRL's slot: its value is (l1 * sign(linear) - linear) / (accum ** -power / rate + 2 * l2)."""
    accumulator, linear = (optimizer.get_slot(variable, name) for name in ("accum", "linear"))
    rate, l1, l2, power = (tf.cast(term, variable.dtype.base_dtype) for term in ftrl_terms(optimizer))
    return _fit(linear, variable, accumulator.read_value() ** -power / rate + 2 * l2, l1)


def _fit_sum(optimizer: Any, variable: Any) -> tf.Operation:
    """Fits AdagradDA's: its value is -rate * shrunk(sum, l1 * step) / (l2 * rate * step + sqrt(squares))."""
    total, squares = (
        optimizer.get_slot(variable, f"gradient_{name}") for name in ("accumulator", "squared_accumulator")
    )
    rate, l1, l2, step = (tf.cast(term, variable.dtype.base_dtype) for term in adagrad_da_terms(optimizer))
    before = step - 1  # the present values are those of the step before
    return _fit(total, variable, tf.sqrt(squares.read_value()) / rate + l2 * before, l1 * before)


def _fit(slot: Any, variable: Any, scale: tf.Tensor, l1: tf.Tensor) -> tf.Operation:
    """Assigns the sum whose value this is: value = -shrunk(sum, l1) / scale; a value of 0 keeps what it can."""
    value = variable.read_value()
    within = tf.clip_by_value(slot.read_value(), -l1, l1)
    return slot.assign(tf.where(tf.equal(value, 0), within, -value * scale - l1 * tf.sign(value)), read_value=False)
