"""Kernels that stand in for rules."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from tests.support.keras_rules import KO, traced, traced_by_name


@pytest.mark.parametrize("name", ["SGD", "momentum", "nesterov", "loss_scale_factor", "rate_function"])
def test_descent_and_momentum_have_a_kernel(name: str) -> None:
    assert traced_by_name(name)[0].rules["embeddings"].kernel is not None


@pytest.mark.parametrize(("rate", "has"), [(0.001, True), (0.01, True), (0.1, False)])
def test_adam_has_a_kernel_for_rates_of_which_a_step_is_exact_enough(rate: float, has: bool) -> None:
    assert (traced(KO.Adam(rate), 0)[0].rules["embeddings"].kernel is not None) == has


@pytest.mark.parametrize("name", ["amsgrad", "own", "weight_decay", "ema_overwrite", "Lion"])
def test_a_rule_that_computes_something_else_has_none(name: str) -> None:
    assert traced_by_name(name)[0].rules["embeddings"].kernel is None


class Later(keras.optimizers.SGD):
    """Descends, and does something else after more updates than a trial makes."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        factor = keras.ops.where(self.iterations > 1000, 2.0, 1.0)
        self.assign_sub(variable, learning_rate * factor * gradient)


@pytest.mark.parametrize("optimizer", [Later(0.1), KO.SGD(0.1, clipvalue=1e9), KO.Adam(0.1, clipvalue=1e9)])
def test_a_difference_that_no_trial_reaches_is_noticed(optimizer: Any) -> None:
    assert traced(optimizer, 0)[0].rules["embeddings"].kernel is None
