"""Calls of the user's functions: each gets the arguments that it names.

    model_fn = bind_model_fn(user_model_fn, params, config)
    spec = model_fn(features, labels, ModeKeys.TRAIN)

Functions, lambdas, partials, bound methods and objects with `__call__` are called alike.
"""

from __future__ import annotations

import copy
import functools
import inspect
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, runtime_checkable

import tensorflow.compat.v1 as v1

from ps_train.base.user_code import remedy
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from ps_train.compat.estimator.spec.run_config import RunConfig
from ps_train.data.named_inputs import named_inputs

log = logging.getLogger(__name__)


@runtime_checkable
class EstimatorLike(Protocol):
    """An Estimator, or an object that has its methods."""

    @property
    def config(self) -> RunConfig:
        """The settings."""

    @property
    def model_dir(self) -> str:
        """The directory of checkpoints and events."""

    train: Callable[..., Any]
    evaluate: Callable[..., Any]
    export_saved_model: Callable[..., Any]
    latest_checkpoint: Callable[[], str | None]


def check_estimator(estimator: Any) -> None:
    """Raises TypeError for an object that is not an Estimator."""
    if not isinstance(estimator, EstimatorLike):
        raise TypeError(
            f"estimator={estimator!r} is of type {type(estimator).__name__}: use a ps_train.estimator.Estimator."
        )


MODEL_FN_ARGUMENTS = ("features", "labels", "mode", "params", "config")


def argument_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the names that a function's arguments can be passed by, without those that a partial has bound."""
    return tuple(_parameters(function))


def call_by_name(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Calls a function with those of the values that it names."""
    names = argument_names(function)
    return function(**{name: value for name, value in values.items() if name in names})


def check_arguments(function: Callable[..., Any], what: str, allowed: Collection[str]) -> None:
    """Raises ValueError if a function needs, or names among its positional arguments, one that is not allowed."""
    unknown = [
        name
        for name, parameter in _parameters(function).items()
        if name not in allowed and (parameter.kind != parameter.KEYWORD_ONLY or parameter.default is parameter.empty)
    ]
    if unknown:
        raise ValueError(
            f"{what} {name_of(function)} takes {', '.join(unknown)}, which an Estimator does not give: allowed are "
            f"{', '.join(allowed)}; bind other arguments with functools.partial."
        )


def check_model_fn(model_fn: Any, params: Any) -> None:
    """Checks the arguments of a model_fn.

    Args:
      model_fn: the function.
      params: the parameters of the Estimator, or None.

    Raises:
      ValueError: there is no model_fn, it lacks features, it lacks params although there are some, or it takes an
        argument that is unknown.
    """
    if model_fn is None:
        raise ValueError("Estimator needs a model_fn: give a function of features, labels, mode, params and config.")
    names = argument_names(model_fn)
    if "features" not in names:
        raise ValueError(f"model_fn {name_of(model_fn)} has no argument features: it takes {', '.join(names)}.")
    if params is not None and "params" not in names:
        raise ValueError(
            f"model_fn {name_of(model_fn)} has no argument params, but params={params!r} is given to the Estimator: "
            "add the argument or leave out params."
        )
    check_arguments(model_fn, "model_fn", MODEL_FN_ARGUMENTS)
    if params is None and "params" in names:
        log.warning("model_fn %s takes params, and the Estimator has none: it gets {}", name_of(model_fn))


def bind_model_fn(
    model_fn: Callable[..., Any], params: Mapping[str, Any], config: RunConfig
) -> Callable[..., EstimatorSpec]:
    """Returns `f(features, labels, mode)`, which calls a model_fn with copies of params and config.

    It raises ValueError if there are labels that the model_fn does not take, or if the result is not an EstimatorSpec.
    Variables of the model_fn are resource variables.
    """

    def call(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        if labels is not None and "labels" not in argument_names(model_fn):
            raise ValueError(
                f"model_fn {name_of(model_fn)} takes no labels, but the input_fn returns some: add the argument "
                "labels, or return features only."
            )
        values = {"features": features, "labels": labels, "mode": mode}
        values |= {"params": copy.deepcopy(params), "config": copy.deepcopy(config)}
        inputs = named_inputs(features, labels)
        with v1.variable_scope(v1.get_variable_scope(), use_resource=True, auxiliary_name_scope=False):
            try:
                spec = call_by_name(model_fn, values)
            except Exception as error:
                if (advice := remedy(error, inputs)) and hasattr(error, "add_note"):  # from Python 3.11 on
                    error.add_note(f"ps_train: {advice}.")
                raise
        if not isinstance(spec, EstimatorSpec):
            raise ValueError(
                f"model_fn {name_of(model_fn)} must return an EstimatorSpec, not {type(spec).__name__}: return "
                "EstimatorSpec(mode, loss=..., train_op=...)."
            )
        return spec

    return call


def bind_input_fn(
    input_fn: Callable[..., Any], mode: str, params: Mapping[str, Any], config: RunConfig
) -> Callable[[], Any]:
    """Returns a function without arguments, which calls an input_fn on the CPU with copies of params and config."""

    def call() -> Any:
        values = {"mode": mode, "params": copy.deepcopy(params), "config": copy.deepcopy(config)}
        with v1.device("/cpu:0"):
            return call_by_name(input_fn, values)

    return call


def name_of(function: Callable[..., Any]) -> str:
    """Returns the name of a function in errors."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    found = inspect.signature(function, follow_wrapped=False).parameters.values()
    if any(parameter.kind == parameter.VAR_KEYWORD for parameter in found):  # a decorator that passes all arguments on
        found = inspect.signature(function).parameters.values()
    bound = function.keywords if isinstance(function, functools.partial) else {}
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {one.name: one for one in found if one.kind in kinds and one.name not in bound}
