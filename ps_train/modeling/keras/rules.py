"""Traces the update rules of a compiled model's Keras optimizer.

    rules = trace_rules(model.optimizer, model.trainable_variables, names)
    data = rules.to_bytes()

The optimizer's own `apply` is traced once, with all variables, and taken apart by what each new value is computed
from.  So rules of the user's own classes are carried too, and nothing of the optimizer is read from its configuration.
Two things are exchanged while it is traced: the learning rate is an input, and what needs the gradients of all
variables (`global_clipnorm`) or is the worker's (`loss_scale_factor`) is left out.  The optimizer and its variables are
as before afterwards.

It is called while TensorFlow executes eagerly: in a graph of TensorFlow 1 Keras's code reads `tensor == 0` as False.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.base.errors import ConfigError, ModelError
from ps_train.base.private_tf import updates_of
from ps_train.modeling.keras.loss_scale import LossScale
from ps_train.modeling.keras.names import slot_names, variable_of, variables_of
from ps_train.modeling.keras.pure_graph import PureGraph, without_variables
from ps_train.modeling.keras.rule_checks import examined
from ps_train.modeling.keras.rule_graph import rule_graph
from ps_train.modeling.keras.update_rules import RateRule, Rule, Slot, UpdateRules, why_not_local
from ps_train.modeling.model import RATE_KEY

__all__ = ["UpdateRules", "put_slot_updates", "trace_rules"]


_SLOTS_SINCE: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
"""Optimizer to the number of its updates at which its slots began, where that is not 0."""


def put_slot_updates(optimizer: Any, updates: int) -> None:
    """Tells the number of updates that the slots of a Keras optimizer have seen, which may have made more.

    Its next rules have it, and count on as the optimizer does.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    _SLOTS_SINCE[optimizer] = int(updates_of(optimizer).numpy()) - updates


def trace_rules(optimizer: Any, variables: Sequence[Any], names: Sequence[str]) -> UpdateRules:
    """Returns the update rules of an optimizer.

    Args:
      optimizer: a Keras optimizer.  It is built for `variables` if it is not built yet.
      variables: the Keras variables that have a gradient.
      names: the name of each variable on the ps.

    Raises:
      ConfigError: the optimizer's arguments cannot be used together on a ps.
      ModelError: the rule cannot be carried to a ps.
    """
    if not tf.executing_eagerly():
        raise ModelError("the optimizer is traced while TensorFlow builds a graph: call fit outside of any graph.")
    if hasattr(optimizer, "optimizers"):
        raise ModelError(
            f"{type(optimizer).__name__} has several optimizers, each with a learning rate and a count of its own: "
            "compile the model with one of them."
        )
    if not optimizer.built:
        optimizer.build(list(variables))
    scale = None
    if hasattr(optimizer, "inner_optimizer"):
        scale = LossScale(float(optimizer.dynamic_scale), int(optimizer.step_counter), optimizer.dynamic_growth_steps)
        optimizer = optimizer.inner_optimizer
    kind = type(optimizer).__name__
    if optimizer.gradient_accumulation_steps and optimizer.global_clipnorm:
        raise ConfigError(
            f"{kind}(gradient_accumulation_steps={optimizer.gradient_accumulation_steps}, "
            f"global_clipnorm={optimizer.global_clipnorm}) cannot be trained on parameter servers: each of them "
            "accumulates its own variables, and the norm is that of all. Use clipnorm or clipvalue, or one of the two."
        )
    iterations = updates_of(optimizer)
    rate = _traced_rate(optimizer, iterations)
    taken = _Taken(kind, optimizer, variables, names, *_traced_apply(optimizer, variables, iterations))
    found = examined([taken.rule(index) for index in range(len(names))], taken.why_whole(), optimizer)
    return UpdateRules(
        kind,
        dict(zip(names, found, strict=True)),
        rate,
        int(iterations.numpy()),
        int(iterations.numpy()) - _SLOTS_SINCE.get(optimizer, 0),
        float(optimizer.global_clipnorm or 0.0),
        float(optimizer.loss_scale_factor or 0.0),
        why_not_local(optimizer),
        scale,
        taken.homes,
    )


def _traced_rate(optimizer: Any, iterations: Any) -> RateRule:
    def rate() -> tf.Tensor:
        return tf.cast(tf.convert_to_tensor(optimizer.learning_rate), tf.float32)

    function = tf.function(rate, autograph=False).get_concrete_function()
    own = [variable for variable in function.graph.variables if variable is not variable_of(iterations)]
    if len(own) > 1:
        raise ModelError(
            f"the learning rate of {type(optimizer).__name__} is computed from several variables "
            f"({', '.join(sorted(variable.name for variable in own))}): use a number or a LearningRateSchedule."
        )
    known = {"iterations": variable_of(iterations), **dict(zip([RATE_KEY], own, strict=False))}
    pure = without_variables(function, known, f"the learning rate of {type(optimizer).__name__}")
    if not pure.outputs:
        raise ModelError(f"the learning rate of {type(optimizer).__name__} is not a number.")
    graph, inputs = pure.slice(pure.outputs), pure.inputs_of(*pure.outputs)
    initial = float(own[0].numpy() if own and inputs == {RATE_KEY} else tf.convert_to_tensor(optimizer.learning_rate))
    return RateRule(graph.SerializeToString(deterministic=True), frozenset(inputs), pure.outputs[0], initial)


def _traced_apply(
    optimizer: Any, variables: Sequence[Any], iterations: Any
) -> tuple[PureGraph, Mapping[str, tf.Variable]]:
    """Returns the operations of `apply`, and the variables of the optimizer that they use, by their keys."""
    rate = tf.Variable(0.0, trainable=False)
    with _rate_read_from(optimizer, rate), _left_out(optimizer, "global_clipnorm", "loss_scale_factor"):
        function = tf.function(lambda *gradients: optimizer.apply(list(gradients), list(variables)), autograph=False)
        traced = function.get_concrete_function(
            *(tf.TensorSpec(one.shape, one.dtype, f"gradient_{index}") for index, one in enumerate(variables))
        )
    known = {"rate": rate, "iterations": variable_of(iterations)}
    known |= {f"variable_{index}": variable_of(one) for index, one in enumerate(variables)}
    # A variable that the optimizer does not tell, because an attribute has it, is known once it is read.
    others = [*map(variable_of, optimizer.variables), *traced.graph.variables]
    taken = {id(one) for one in known.values()}
    state = {f"state_{index}": one for index, one in enumerate({id(one): one for one in others}.values())}
    state = {key: one for key, one in state.items() if id(one) not in taken}
    return without_variables(traced, {**known, **state}, f"the optimizer {type(optimizer).__name__}"), state


@contextlib.contextmanager
def _rate_read_from(optimizer: Any, rate: tf.Variable) -> Iterator[None]:
    """Makes the optimizer read its learning rate from a variable in the body, by a class between it and its own."""
    kind = type(optimizer)
    between = type(kind.__name__, (kind,), {"learning_rate": property(lambda _: rate.read_value())})
    object.__setattr__(optimizer, "__class__", between)
    try:
        yield
    finally:
        object.__setattr__(optimizer, "__class__", kind)


@contextlib.contextmanager
def _left_out(optimizer: Any, *arguments: str) -> Iterator[None]:
    """Sets arguments of the optimizer to None in the body."""
    before = {name: getattr(optimizer, name) for name in arguments}
    try:
        for name in arguments:
            setattr(optimizer, name, None)
        yield
    finally:
        for name, value in before.items():
            setattr(optimizer, name, value)


class _Taken:
    """The operations of `apply`, taken apart into the rules of the variables.

    Attributes:
      homes: of a variable and a slot, by their names, to the optimizer's variable.
    """

    def __init__(
        self,
        kind: str,
        optimizer: Any,
        variables: Sequence[Any],
        names: Sequence[str],
        pure: PureGraph,
        state: Mapping[str, tf.Variable],
    ) -> None:
        self._kind, self._optimizer, self._variables, self._names = kind, optimizer, variables, names
        self._pure, self._state = pure, state
        self._homes = {id(variable_of(one)): one for one in variables_of(optimizer)}
        self._slot_names = slot_names(optimizer, variables)
        self._needed = [self._closure(f"variable_{index}") for index in range(len(variables))]
        self._extra = self._beside()
        self.homes: dict[tuple[str, str], Any] = {}

    def rule(self, index: int) -> Rule:
        """Returns the rule of a variable by its index."""
        self._check_alone(index)
        variable, name = self._variables[index], self._names[index]
        keys = [key for key in self._state if key in self._needed[index] or key in self._extra[index]]
        slots: dict[str, Slot] = {}
        for key in keys:
            slot = self._slot(self._state[key], slots)
            slots[slot.name] = slot
            self.homes[name, slot.name] = self._homes.get(id(self._state[key]), self._state[key])
        as_named = {f"variable_{index}": "variable", f"gradient_{index}": "gradient"}
        as_named |= {key: f"slot_{number}" for number, key in enumerate(keys)}
        results = {named: self._pure.results[key] for key, named in as_named.items() if key in self._pure.results}
        shape = tuple(variable.shape)
        dtype = tf.as_dtype(variable.dtype).base_dtype
        graph, inputs, outputs = rule_graph(self._pure, results, as_named, shape, dtype)
        return Rule(shape, graph, inputs, outputs, tuple(slots.values()), dense_reason=self._why_dense())

    def why_whole(self) -> list[str]:
        """Returns the reason for which each variable is whole, if its rule turns out to need all its rows."""
        found = []
        for variable in self._variables:
            if self._optimizer.clipnorm:
                found.append(f"clipnorm={self._optimizer.clipnorm} needs the whole gradient")
            elif getattr(variable, "constraint", None) is not None:
                found.append(f"its constraint {type(variable.constraint).__name__} needs the whole variable")
            else:
                found.append(f"{self._kind} computes each row from all rows")
        return found

    def _why_dense(self) -> str:
        if self._optimizer.gradient_accumulation_steps:
            steps = self._optimizer.gradient_accumulation_steps
            return f"gradient_accumulation_steps={steps} updates rows after the steps that looked them up"
        return "use_ema=True averages all rows at every step" if self._optimizer.use_ema else ""

    def _closure(self, key: str) -> set[str]:
        """Returns the inputs from which a variable's value is computed, over all steps."""
        found: set[str] = set()
        waiting = {key}
        while waiting:
            one = waiting.pop()
            found.add(one)
            if one in self._pure.results:
                waiting |= self._pure.inputs_of(self._pure.results[one]) - found
        return found

    def _beside(self) -> list[set[str]]:
        """Returns, for each variable, the optimizer's variables that follow it and that it does not need."""
        needed: set[str] = set().union(*self._needed)
        found: list[set[str]] = [set() for _ in self._variables]
        for key in self._state:
            if key not in needed and key in self._pure.results:
                of = sorted(self._indices(self._closure(key)))
                if len(of) > 1:
                    raise ModelError(self._coupled(*of[:2]))
                for index in of:
                    found[index].add(key)
        return found

    def _indices(self, keys: set[str]) -> set[int]:
        """Returns the indices of the variables that are among keys, or whose gradients are."""
        return {int(key.rpartition("_")[2]) for key in keys if key.startswith(("variable_", "gradient_"))}

    def _check_alone(self, index: int) -> None:
        if other := sorted(self._indices(self._needed[index]) - {index}):
            raise ModelError(self._coupled(index, other[0]))

    def _coupled(self, index: int, other: int) -> str:
        return (
            f"the optimizer {self._kind} updates {self._names[index]} from {self._names[other]}, which may be on "
            "another ps: an update may use its own variable, its gradient and its slots, and the number of updates."
        )

    def _slot(self, state: tf.Variable, taken: Mapping[str, Slot]) -> Slot:
        value = state.numpy()
        if value.size and (value == value.flat[0]).all():
            value = value.flat[0]
        home = self._homes.get(id(state))
        wanted = "state" if home is None else self._slot_names[id(home)].name
        unique, number = wanted, 1
        while unique in taken:
            number += 1
            unique = f"{wanted}_{number}"
        return Slot(unique, state.dtype.base_dtype.name, tuple(state.shape.as_list()), np.asarray(value))
