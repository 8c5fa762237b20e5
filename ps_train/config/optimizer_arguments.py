"""The optimizers that --optimizer names, with their arguments, defaults and checks, for --optimizer_arg.

    values_of("adam", {"epsilon": "1e-6"}, sources={})      # {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-06}

An optimizer is always made with all of these values, so the defaults here are the ones that count.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from ps_train.base.errors import ConfigError
from ps_train.config.fields import item_key, shown, source_of
from ps_train.config.validators import Check, above, at_least

Value = float | bool | None

ADAGRAD_START = 1e-6
"""First value of Adagrad's accumulators; see docs/decisions/0039-the-start-of-adagrad.md."""


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of an optimizer.

    Attributes:
      default: the default; a bool for an argument that is one; None where it follows from the job.
      check: check of a number.
    """

    default: Value
    check: Check

    def parse(self, text: str) -> Value | None:
        """Returns the value of a text; None if it is not allowed."""
        if isinstance(self.default, bool):
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}.get(text.lower())
        try:
            value = float(text)
        except ValueError:
            return None
        return value if math.isfinite(value) and self.check.accepts(value) else None


_SHARE = Check("a number from 0 to below 1", lambda value: 0 <= value < 1)
_NOT_ABOVE_0 = Check("a number of at most 0", lambda value: value <= 0)
_FLAG = Check("true or false", lambda value: isinstance(value, bool))

_ADAM = {
    "beta1": Argument(0.9, _SHARE),
    "beta2": Argument(0.999, _SHARE),
    "epsilon": Argument(1e-8, above(0)),
}
_ADAGRAD = {"initial_accumulator_value": Argument(ADAGRAD_START, above(0))}
ARGUMENTS: Mapping[str, Mapping[str, Argument]] = {
    "sgd": {},
    "momentum": {"momentum": Argument(0.9, _SHARE), "use_nesterov": Argument(False, _FLAG)},
    "adam": _ADAM,
    "adagrad": _ADAGRAD,
    "ftrl": {
        "learning_rate_power": Argument(-0.5, _NOT_ABOVE_0),
        "initial_accumulator_value": Argument(0.1, at_least(0)),
        "l1_regularization_strength": Argument(0.0, at_least(0)),
        "l2_regularization_strength": Argument(0.0, at_least(0)),
        "l2_shrinkage_regularization_strength": Argument(0.0, at_least(0)),
        "beta": Argument(0.0, at_least(0)),
    },
    "rmsprop": {
        "decay": Argument(0.9, _SHARE),
        "momentum": Argument(0.0, _SHARE),
        "epsilon": Argument(1e-10, above(0)),
        "centered": Argument(False, _FLAG),
    },
    "lazy_adam": _ADAM,
    "rowwise_adagrad": _ADAGRAD,
}
"""Name of an optimizer to its arguments, those of TensorFlow's class without learning rate, locking and names."""


OUTER_ARGUMENTS: Mapping[str, Mapping[str, Argument]] = {
    "sgd": {"learning_rate": Argument(None, above(0))},
    "nesterov": {"learning_rate": Argument(0.7, above(0)), "momentum": Argument(0.9, _SHARE)},
    "elastic": {"alpha": Argument(None, Check("a number above 0 and at most 1", lambda value: 0 < value <= 1))},
}
"""Name of an outer optimizer to its arguments; a default by the workers is told in `docs/local.md`."""

TABLES = {"optimizer_arg": ARGUMENTS, "outer_optimizer_arg": OUTER_ARGUMENTS}
"""Name of a flag with arguments to the optimizers that take them."""

_PAGES = {"optimizer_arg": "models#optimizers", "outer_optimizer_arg": "local#outer-optimizers"}


class OptimizerName(str):
    """The name of the job's optimizer, as `Model.optimizer` gets it; it brings the arguments of --optimizer_arg along.

    Attributes:
      given: argument name to text.
      sources: sources of flags, for errors.
      is_used: True when an optimizer was made with these arguments.
    """

    given: Mapping[str, str]
    sources: Mapping[str, str]
    is_used: bool

    def __new__(cls, name: str, given: Mapping[str, str], sources: Mapping[str, str]) -> OptimizerName:
        """Returns the name of an optimizer that is not made yet."""
        found = super().__new__(cls, name)
        found.given, found.sources, found.is_used = given, sources, False
        return found


def values_of(
    name: str, given: Mapping[str, str], sources: Mapping[str, str], flag: str = "optimizer_arg"
) -> dict[str, Value]:
    """Returns the values of all arguments of an optimizer.

    Args:
      name: name of the optimizer, one of the flag's table.
      given: argument name to text, for those that differ from the default.
      sources: sources of flags, for errors.
      flag: the flag with the arguments.

    Raises:
      ConfigError: an argument is unknown, or its value is not allowed.
    """
    arguments, page = TABLES[flag][name], _PAGES[flag]
    values = {key: argument.default for key, argument in arguments.items()}
    for key, text in given.items():
        source = source_of(sources, item_key(flag, f"{key}={text}"))
        if key not in arguments:
            raise ConfigError(
                f"{flag} {key}{source} is not an argument of {name}: "
                + (f"it takes {with_defaults(name, flag)}." if arguments else "it takes none."),
                page=page,
            )
        value = arguments[key].parse(text)
        if value is None:
            given_value = shown(text) if text else "''"
            raise ConfigError(
                f"{flag} {key}={given_value}{source} is not valid for {name}: use "
                f"{arguments[key].check.allowed} (the default is {_text(arguments[key].default)}).",
                page=page,
            )
        values[key] = value
    return values


def with_defaults(name: str, flag: str = "optimizer_arg") -> str:
    """Returns the arguments of an optimizer with their defaults, `beta1=0.9, beta2=0.999, ...`; "" for none."""
    return ", ".join(f"{key}={_text(argument.default)}" for key, argument in TABLES[flag][name].items())


def _text(value: Value) -> str:
    if value is None:
        return "by the workers"
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
