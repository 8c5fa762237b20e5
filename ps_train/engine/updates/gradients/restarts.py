"""Optimizers whose slots may begin anew in the middle of a job, as those of local steps do.

    Restarts(variables, is_start=pulled_step <= 0).allow(optimizer)

Two kinds need help.

- FTRL and AdagradDA do not move a value: they compute it anew from a sum of all gradients.  Where the sum begins anew,
  or others move the value, the value would be lost.  So each update first makes the sum that from which the optimizer
  computes the present value; where nobody else has written, it is that already.  The values that a job begins with are
  lost as ever.
- One that computes its corrections from the number of all updates, as those of Keras, counts its own.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any, Protocol, runtime_checkable

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import adagrad_da_terms, before_updates, ftrl_terms
from ps_train.modeling.tables.row_allocator import scatter_rows

log = logging.getLogger(__name__)

_MOST = 0.5
"""Most that a value of 1 may change without a gradient, as by weight decay."""


@runtime_checkable
class CountsUpdates(Protocol):
    """An optimizer whose corrections follow the steps of the job, unless it is told to count."""

    def count_updates(self) -> None:
        """Makes it count its updates in a variable beside its slots, and follow that."""


def computes_from_slots(optimizer: Any) -> bool:
    """Returns True if the next update computes a value from slots alone, which are sums of all gradients."""
    return isinstance(optimizer, v1.train.FtrlOptimizer | v1.train.AdagradDAOptimizer)


def why_no_restarts(optimizer: Any) -> str:
    """Returns why an optimizer's slots cannot begin anew, as text; "" if they can.

    It tries a user's own optimizer, for which the default graph must be one of its own.
    """
    if isinstance(optimizer, CountsUpdates) or type(optimizer).__module__.startswith("tensorflow."):
        return ""
    variable = v1.Variable(tf.ones([2]), use_resource=True)
    try:
        updated = optimizer.apply_gradients([(tf.zeros([2]), variable)])
        with v1.Session(config=v1.ConfigProto(device_count={"GPU": 0})) as session:
            session.run(v1.global_variables_initializer())
            session.run(updated)
            value = session.run(variable)
    except Exception as error:  # it needs a variable or a gradient of its model
        log.debug("%s is not tried: %s", type(optimizer).__name__, error)
        return ""
    if v1.get_collection(v1.GraphKeys.MOVING_AVERAGE_VARIABLES):
        return "it averages the variables in every step, and a worker keeps the averages of local steps"
    if np.abs(value - 1).max() > _MOST:
        return "it computes values from its slots alone, and local steps may begin these anew"
    return ""


class Restarts:
    """Where slots may begin anew.

    Args:
      variables: those whose values others write, too, while their slots do not follow.
      is_start: bool scalar, whether values are those with which the job begins.
    """

    def __init__(self, variables: Collection[Any], is_start: tf.Tensor) -> None:
        self._ids, self._is_start = {id(variable) for variable in variables}, is_start

    def allow(self, optimizer: Any) -> None:
        """Makes an optimizer go on from the present values of variables with the slots that it has."""
        if isinstance(optimizer, CountsUpdates):
            optimizer.count_updates()
        if isinstance(optimizer, v1.train.FtrlOptimizer):
            fit = _fit_linear
        elif isinstance(optimizer, v1.train.AdagradDAOptimizer):
            fit = _fit_sum
        else:
            return

        def fitted(variable: Any, rows: Any) -> list[tf.Operation]:
            is_own = id(variable) in self._ids
            return [fit(optimizer, _Rows(variable, rows, self._is_start))] if is_own else []

        before_updates(optimizer, fitted)


class _Rows:
    """The rows of a variable that an update computes.

    Args:
      variable: the variable.
      rows: their numbers, which may come several times; None for all.
      is_start: bool scalar, whether a sum that has no gradient yet stays so.
    """

    def __init__(self, variable: Any, rows: tf.Tensor | None, is_start: tf.Tensor) -> None:
        self.variable, self._rows, self._is_start = variable, rows, is_start

    def cast(self, *terms: Any) -> list[tf.Tensor]:
        """Returns numbers in the variable's dtype."""
        return [tf.cast(term, self.variable.dtype.base_dtype) for term in terms]

    def read(self, variable: Any) -> tf.Tensor:
        """Returns the rows of the variable, or of a slot of it."""
        return variable.read_value() if self._rows is None else variable.sparse_read(self._rows)

    def fit(self, slot: Any, scale: tf.Tensor, l1: tf.Tensor) -> tf.Operation:
        """Sets a sum to that whose value is present: value = -shrunk(sum, l1) / scale; 0 keeps what it can."""
        value, present = self.read(self.variable), self.read(slot)
        fitted = tf.where(tf.equal(value, 0), tf.clip_by_value(present, -l1, l1), -value * scale - l1 * tf.sign(value))
        fitted = tf.where(self._is_start & tf.equal(present, 0), present, fitted)
        return slot.assign(fitted, read_value=False) if self._rows is None else scatter_rows(slot, self._rows, fitted)


def _fit_linear(optimizer: Any, rows: _Rows) -> tf.Operation:
    """Fits FTRL's slot: its value is (l1 * sign(linear) - linear) / (accum ** -power / rate + 2 * l2)."""
    accumulator, linear = (optimizer.get_slot(rows.variable, name) for name in ("accum", "linear"))
    rate, l1, l2, power = rows.cast(*ftrl_terms(optimizer))
    return rows.fit(linear, rows.read(accumulator) ** -power / rate + 2 * l2, l1)


def _fit_sum(optimizer: Any, rows: _Rows) -> tf.Operation:
    """Fits AdagradDA's: its value is -rate * shrunk(sum, l1 * step) / (l2 * rate * step + sqrt(squares))."""
    names = "gradient_accumulator", "gradient_squared_accumulator"
    total, squares = (optimizer.get_slot(rows.variable, name) for name in names)
    rate, l1, l2, step = rows.cast(*adagrad_da_terms(optimizer))
    before = step - 1  # the present values are those of the step before
    return rows.fit(total, tf.sqrt(rows.read(squares)) / rate + l2 * before, l1 * before)
