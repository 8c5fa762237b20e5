"""The values on the ps as those of a Keras model and its optimizer."""

from __future__ import annotations

from typing import Any

import numpy as np

from ps_train.base.private_tf import updates_of
from ps_train.modeling.keras.names import keyed_variables
from ps_train.modeling.keras.rules import put_slot_updates
from ps_train.modeling.keras.traced_step import FIXED, SUM, TracedStep, keyed_metrics
from ps_train.modeling.keras.update_rules import UPDATES_KEY
from ps_train.modeling.model import RATE_KEY
from ps_train.training.duties.epochs import Values


class KerasCluster:
    """Moves values between the ps and a model; all workers are at rest, but for `pull_metrics` and `push_rate`.

    Args:
      model: the compiled model.
      step: its traced step.

    Attributes:
      values: the values on the ps in the present session.
      step: the global step at which all workers are at rest.
      is_changed: True once `push` was called.
    """

    values: Values

    def __init__(self, model: Any, step: TracedStep) -> None:
        self._model, self._first = model, step.rules.iterations
        self.step, self.is_changed = 0, False
        on_ps = {one.key for one in step.variables if one.role not in (FIXED, SUM)}
        variables = keyed_variables(model)
        self._weights = {key: one for key, one in variables.items() if key in on_ps}
        self._all_slots = step.rules.slot_variables
        metrics = keyed_metrics(model)
        self._sums = [(one.value, metrics[one.key]) for one in step.variables if one.role == SUM]
        self._base: Any = 0.0

    def attach(self, values: Values) -> None:
        """Takes the values of a new session."""
        self.values = values
        there = set(values.keys())
        self._slots = {key: one for key, one in self._all_slots.items() if key in there}
        self._has_rate, self._counts_updates = RATE_KEY in there, UPDATES_KEY in there

    def pull(self, slots: bool) -> None:
        """Puts the values on the ps into the model, and with `slots` into its optimizer."""
        wanted = {**self._weights, **(self._slots if slots else {})}
        counts = [UPDATES_KEY] if slots and self._counts_updates else []
        found = self.values.read([*wanted, *counts])
        for key, variable in wanted.items():
            variable.assign(found[key])
        updates_of(self._model.optimizer).assign(self._first + self.step)
        for key in counts:
            put_slot_updates(self._model.optimizer, int(found[key]))

    def push(self) -> None:
        """Writes the values of the model and its optimizer to the ps."""
        self.is_changed = True
        self.values.write({key: one.numpy() for key, one in {**self._weights, **self._slots}.items()})

    def push_rate(self, rate: float) -> None:
        """Sets the learning rate on all ps."""
        if self._has_rate:
            self.values.write({RATE_KEY: np.float32(rate)})

    def pull_metrics(self) -> None:
        """Puts the sums of the present epoch into the model's metrics."""
        sums, at = np.asarray(self.values.sums() - self._base), 0
        for start, variable in self._sums:
            size = int(np.prod(start.shape))
            variable.assign(start + sums[at : at + size].reshape(start.shape).astype(start.dtype))
            at += size

    def new_epoch(self) -> None:
        """Begins the sums anew."""
        self._base = self.values.sums()
