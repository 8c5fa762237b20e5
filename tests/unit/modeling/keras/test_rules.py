"""The update rules of Keras optimizers, traced, against Keras's own `apply`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, ModelError
from ps_train.modeling.keras.rules import trace_rules
from tests.support.keras_rules import (
    FIRST,
    GRADIENTS,
    KO,
    NAMES,
    OPTIMIZERS,
    STARTS,
    STEPS,
    S,
    applied,
    assert_equal,
    keras_variables,
    numpy,
    traced,
    traced_by_name,
    updated,
)


@pytest.mark.usual(20)
@pytest.mark.parametrize("name", NAMES)
def test_updates_on_two_ps_go_on_from_those_of_keras_and_equal_them(name: str) -> None:
    right = numpy(applied(OPTIMIZERS[name](), STEPS))
    rules, start = traced_by_name(name)
    assert_equal(updated(rules, start, GRADIENTS[FIRST:]), right)


@pytest.mark.parametrize("name", ["Nadam", "accumulation_and_more", "own"])
def test_the_optimizer_and_the_variables_are_as_before(name: str) -> None:
    optimizer = OPTIMIZERS[name]()
    variables = applied(optimizer, FIRST)
    state = [*variables.values(), *optimizer.variables]
    before, kind, rate = [one.numpy() for one in state], type(optimizer), optimizer.learning_rate
    trace_rules(optimizer, list(variables.values()), list(variables))
    for one, value in zip(state, before, strict=True):
        np.testing.assert_array_equal(one.numpy(), value)
    assert type(optimizer) is kind and optimizer.learning_rate is rate


def test_slots_have_readable_names_and_go_back_to_the_optimizer() -> None:
    right = KO.Nadam(0.1)
    applied(right, STEPS)
    optimizer = KO.Nadam(0.1)
    variables = applied(optimizer, FIRST)
    rules = trace_rules(optimizer, list(variables.values()), list(variables))
    found = updated(rules, numpy(variables), GRADIENTS[FIRST:])
    assert {"kernel/momentum", "kernel/velocity", "kernel/u_product", "learning_rate"} <= found.keys()
    for key, home in rules.slot_variables.items():
        home.assign(found[key])
    for one, other in zip(optimizer.variables[2:], right.variables[2:], strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6, atol=1e-6)


def test_the_rate_is_a_variable_of_each_ps_and_has_a_factor() -> None:
    optimizer = KO.SGD(0.5)
    variables = applied(optimizer, 0)
    optimizer.learning_rate = 0.25
    rules = trace_rules(optimizer, list(variables.values()), list(variables))
    assert (rules.initial_rate, rules.is_scheduled) == (0.25, False)
    found = updated(rules, STARTS, GRADIENTS[:1], factor=0.5)
    np.testing.assert_allclose(found["gamma"], STARTS["gamma"] - 0.125 * GRADIENTS[0]["gamma"], rtol=1e-6)
    assert found["learning_rate"] == found["learning_rate_1"] == np.float32(0.25)  # one for each ps, in one graph


def test_a_schedule_has_no_variable() -> None:
    optimizer = KO.SGD(S.ExponentialDecay(0.5, 1, 0.5))
    variables = applied(optimizer, 1)
    rules = trace_rules(optimizer, list(variables.values()), list(variables))
    assert (rules.initial_rate, rules.is_scheduled) == (0.25, True)
    assert "learning_rate" not in updated(rules, STARTS, GRADIENTS[:1])


def test_accumulation_with_a_norm_of_all_gradients_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"gradient_accumulation_steps=2, global_clipnorm=1\.0") as error:
        variables = keras_variables()
        trace_rules(KO.Adam(0.1, gradient_accumulation_steps=2, global_clipnorm=1.0), list(variables.values()), [])
    assert "\n" not in str(error.value)


class Coupled(keras.optimizers.SGD):
    """An optimizer that updates a variable from the gradients of all."""

    def _backend_apply_gradients(self, grads: Any, trainable_variables: Any) -> None:
        norm = keras.ops.sqrt(sum(keras.ops.sum(keras.ops.square(one)) for one in grads))
        super()._backend_apply_gradients([one / norm for one in grads], trainable_variables)


def test_a_rule_that_needs_other_variables_is_refused_by_their_names() -> None:
    with pytest.raises(ModelError, match=r"Coupled updates kernel from bias, which may be on another ps"):
        traced(Coupled(0.1))


class Scattering(keras.optimizers.SGD):
    """An optimizer with an operation on a variable that has no counterpart among values."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=learning_rate, delta=gradient)


def test_an_operation_that_cannot_be_carried_is_named() -> None:
    with pytest.raises(ModelError, match=r"the optimizer Scattering uses the operation ResourceApplyGradientDescent"):
        traced(Scattering(0.1), 0)


def test_several_optimizers_in_one_are_refused() -> None:
    class Several:
        optimizers = (KO.SGD(0.1), KO.Adam(0.1))

    with pytest.raises(ModelError, match="Several has several optimizers"):
        trace_rules(Several(), [], [])
