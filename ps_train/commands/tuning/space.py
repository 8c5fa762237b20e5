"""The grammar of `--space`: ranges and choices of flags.

    space = parse_space(["learning_rate:1e-4..1e-1:log", "model_arg.hidden:16,32,64", "optimizer:adam,adagrad"])
    space.suggest(trial)        # {"learning_rate": 0.003, "model_arg.hidden": 32, "optimizer": "adam"}
    flag_of("model_arg.hidden", 32)                     # "--model_arg=hidden=32"

A range is `LOW..HIGH`, then `:log`, `:int` or the step.  It is one of whole numbers if both ends are whole and the flag
is not a fraction.  A name alone is a function `NAME(trial)` in the model's module.  `=` may stand for the
first colon.  A choice with a comma or `..` stands in double quotes, and a quote within it twice, as in CSV.  It does
not import Optuna: `suggest` calls the methods of a trial.
"""

from __future__ import annotations

import dataclasses
import decimal
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ps_train.base.errors import ConfigError, nearest
from ps_train.config.fields import job_fields, kind_of, shown
from ps_train.config.job import Job
from ps_train.config.output_fields import OF_ONE_RUN

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})((?::[^:]*)*)")
_ENTRY = re.compile(r"(\w+)(?:\.([A-Za-z_]\w*))?[:=](.*)", re.DOTALL)
_CHOICE = re.compile(r'(?:"((?:[^"]|"")*)"|([^",][^,]*)?),', re.DOTALL)
_FUNCTION = re.compile(r"[A-Za-z_]\w*")
_ARGUMENTS = ("model_arg", "optimizer_arg")
_NEVER = (
    *OF_ONE_RUN, "seed", "cluster_file", "cluster_from", "ignore_checkpoints", "status_port", "status_host",
    "health_port", "port", "hostfile", "k8s_service", "track",
)  # fmt: skip
"""Flags that belong to a single execution, or to the whole study."""

_FORMS = "use NAME:LOW..HIGH, with :log, :int or :STEP after it, NAME:A,B,C, or the name of a function"
_MOST_POINTS = 1_000_000

Value = bool | int | float | str


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`.

    Attributes:
      name: the flag, or `model_arg.NAME`.
      low: the smallest value.
      high: the largest value.
      is_whole: True for whole numbers.
      is_log: True if the logarithm is uniform.
      step: distance of the values; None for any value, or any whole number.
    """

    name: str
    low: int | float
    high: int | float
    is_whole: bool = False
    is_log: bool = False
    step: int | float | None = None

    def suggest(self, trial: Any) -> Value:
        """Returns the value that a trial of Optuna proposes."""
        if self.is_whole:
            step = 1 if self.step is None else int(self.step)
            return int(trial.suggest_int(self.name, int(self.low), int(self.high), step=step, log=self.is_log))
        return float(trial.suggest_float(self.name, self.low, self.high, step=self.step, log=self.is_log))

    def points(self) -> list[Value] | None:
        """Returns all values; None if there are too many to name them."""
        step = 1 if self.is_whole and self.step is None else self.step
        if step is None or (self.high - self.low) / step >= _MOST_POINTS:
            return None
        low, high, distance = (decimal.Decimal(str(number)) for number in (self.low, self.high, step))
        count = int((high - low) / distance) + 1
        numbers = [low + index * distance for index in range(count)]
        return [int(number) if self.is_whole else float(number) for number in numbers]

    def ends(self) -> list[Value]:
        """Returns the smallest and the largest value."""
        return [self.low, self.high]


@dataclasses.dataclass(frozen=True)
class Choices:
    """Some values.

    Attributes:
      name: the flag, or `model_arg.NAME`.
    """

    name: str
    values: tuple[Value, ...]

    def suggest(self, trial: Any) -> Value:
        """Returns the value that a trial of Optuna proposes."""
        return trial.suggest_categorical(self.name, list(self.values))

    def points(self) -> list[Value]:
        """Returns all values."""
        return list(self.values)

    def ends(self) -> list[Value]:
        """Returns all values, each of which must be valid."""
        return list(self.values)


Parameter = Range | Choices


@dataclasses.dataclass(frozen=True)
class Space:
    """The flags that a study chooses.

    Attributes:
      parameters: ranges and choices.
      functions: names of functions of the model's module that choose further ones.
    """

    parameters: tuple[Parameter, ...]
    functions: tuple[str, ...] = ()

    def suggest(self, trial: Any, functions: Sequence[Callable[[Any], Any]] = ()) -> dict[str, Value]:
        """Returns the values of a trial by their names.

        Args:
          trial: Optuna's trial.
          functions: the functions; one may return a dict of values, else its choices are the values.

        Raises:
          ConfigError: a function chooses something that is not a flag.
        """
        values = {parameter.name: parameter.suggest(trial) for parameter in self.parameters}
        for function in functions:
            before = set(trial.params)
            found = function(trial)
            if found is None:
                found = {name: value for name, value in trial.params.items() if name not in before}
            if not isinstance(found, Mapping):
                raise ConfigError(
                    f"{function.__name__}(trial) returned {shown(repr(found))}: return a dict from flags to values, or "
                    "nothing."
                )
            for name in found:
                _check_name(str(name), f"{function.__name__}(trial)")
            values |= found
        return values

    def points(self) -> dict[str, list[Value]]:
        """Returns the values of each parameter, for a grid.

        Raises:
          ConfigError: a parameter has no list of values.
        """
        if self.functions:
            raise ConfigError(
                f"--sampler=grid and --space={self.functions[0]} are both given: a grid has no conditions; use another "
                "sampler."
            )
        found: dict[str, list[Value]] = {}
        for parameter in self.parameters:
            points = parameter.points()
            if points is None:
                raise ConfigError(
                    f"--sampler=grid needs a list of values, but {parameter.name} has a range without a step: add one "
                    f"as in {parameter.name}:{parameter.ends()[0]}..{parameter.ends()[1]}:STEP, or give the values."
                )
            found[parameter.name] = points
        return found


def parse_space(texts: Sequence[str], fractions: Collection[str] = ()) -> Space:
    """Returns the space that all values of `--space` describe.

    Args:
      texts: the values.
      fractions: names of parameters that are no whole numbers although the ends of their ranges are.

    Raises:
      ConfigError: one is not of the grammar, names no flag, or is empty; the text is one line.
    """
    parameters: dict[str, Parameter] = {}
    functions: list[str] = []
    for text in texts:
        if _FUNCTION.fullmatch(text):
            functions.append(text)
            continue
        parameter = _parameter(text, fractions)
        if parameter.name in parameters:
            raise ConfigError(f"--space={shown(text)}: {parameter.name} is in the space already: give it once.")
        parameters[parameter.name] = parameter
    if not parameters and not functions:
        raise ConfigError(f"--space is not given: {_FORMS}, as in --space=learning_rate:1e-4..1e-1:log.")
    return Space(tuple(parameters.values()), tuple(functions))


def flag_of(name: str, value: Value) -> str:
    """Returns a value as a flag of a job."""
    flag, dot, argument = name.partition(".")
    text = str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)
    return f"--{flag}={argument}={text}" if dot else f"--{flag}={text}"


def quoted(choice: str) -> str:
    """Returns a choice as a text of `--space` has it."""
    return '"' + choice.replace('"', '""') + '"' if "," in choice or ".." in choice or '"' in choice else choice


def _parameter(text: str, fractions: Collection[str]) -> Parameter:
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise ConfigError(f"--space={shown(text)} is not understood: {_FORMS}.")
    name = entry[1] + (f".{entry[2]}" if entry[2] else "")
    kind = _check_name(name, f"--space={shown(text)}")
    kind = float if name in fractions else kind
    found = _RANGE.fullmatch(entry[3])
    if found:
        return _range(text, name, kind, found[1], found[2], found[3].split(":")[1:])
    if ".." in entry[3] and '"' not in entry[3]:
        raise ConfigError(f"--space={shown(text)}: {shown(entry[3])} is not a range of numbers: {_FORMS}.")
    choices = list(_CHOICE.finditer(entry[3] + ","))
    if sum(len(choice[0]) for choice in choices) != len(entry[3]) + 1:
        raise ConfigError(
            f'--space={shown(text)}: {shown(entry[3])} has an open quote: use NAME:"A,B","C" for values with a comma, '
            "and two quotes for one within a value."
        )
    words = [(choice[2] or "") if choice[1] is None else choice[1].replace('""', '"') for choice in choices]
    values = tuple(_value(word) for word in words)
    if not all(words) or len(set(words)) < 2:
        raise ConfigError(
            f"--space={shown(text)} has nothing to choose: give at least two values, or --{entry[1]} for a fixed one."
        )
    if len(set(words)) < len(words) or len(set(values)) < len(values):  # to Optuna 1, 1.0 and true are equal
        raise ConfigError(f"--space={shown(text)} has a value twice: give each once.")
    return Choices(name, values)


def _check_name(name: str, where: str) -> type:
    """Returns the type of a parameter's flag; str for arguments, whose type only the model knows."""
    fields = {field.name: field for field in job_fields(Job)}
    flag, dot, argument = name.partition(".")
    if flag in _ARGUMENTS:
        if not dot or not argument:
            raise ConfigError(f"{where}: {flag} needs the name of the argument: use {flag}.NAME.")
        return str
    if flag not in fields or dot:
        known = [*(known for known in fields if known not in _ARGUMENTS), "model_arg.NAME", "optimizer_arg.NAME"]
        hint = nearest(name, known, "did you mean {}?", "arguments of the model are model_arg.NAME.", most=3)
        raise ConfigError(f"{where}: there is no flag {name!r}: {hint}")
    if flag in _NEVER or flag.endswith("_hosts"):
        raise ConfigError(f"{where}: {flag} cannot be tuned, because the study sets it: leave it out.")
    return kind_of(fields[flag])


def _range(text: str, name: str, kind: type, first: str, last: str, options: Sequence[str]) -> Range:
    def wrong(problem: str) -> ConfigError:
        return ConfigError(f"--space={shown(text)}: {problem}.")

    is_whole = bool(_WHOLE.fullmatch(first) and _WHOLE.fullmatch(last)) and kind is not float
    is_log, step_text = False, ""
    for option in options:
        if option == "log":
            is_log = True
        elif option == "int":
            is_whole = True
        elif re.fullmatch(_NUMBER, option) and not step_text:
            step_text = option
        else:
            hint = nearest(option, ("log", "int"), "did you mean {}?", "use log, int or a step")
            raise wrong(f"{shown(option)} is not an option of a range: {hint}")
    low, high = (_number(end, is_whole) for end in (first, last))
    if not all(math.isfinite(float(end)) for end in (first, last)):
        raise wrong("an end of the range is not a finite number")
    if low is None or high is None:
        raise wrong("the ends of a range of whole numbers are not whole")
    if not low < high:
        raise wrong(f"the range is {'empty' if low == high else 'reversed'}: the first end must be below the second")
    if is_log and low <= 0:
        raise wrong("a logarithmic range begins above 0")
    if not step_text:
        return Range(name, low, high, is_whole, is_log)
    step = _number(step_text, is_whole)
    if step is None or step <= 0 or step > high - low:
        raise wrong(f"the step {step_text} is not {'a whole number ' if is_whole else ''}from 0 to {high - low:g}")
    if is_log:
        raise wrong("a logarithmic range has no step: drop one of them")
    distance, start = decimal.Decimal(str(step)), decimal.Decimal(str(low))
    reached = start + distance * int((decimal.Decimal(str(high)) - start) / distance)
    return Range(name, low, int(reached) if is_whole else float(reached), is_whole, False, step)


def _number(text: str, is_whole: bool) -> int | float | None:
    value = float(text)
    if not math.isfinite(value):
        return None
    if not is_whole:
        return value
    return int(text) if _WHOLE.fullmatch(text) else int(value) if value.is_integer() else None


def _value(text: str) -> Value:
    """Returns a choice: True, False, a number, or the text itself."""
    if text in ("true", "false"):
        return text == "true"
    if _WHOLE.fullmatch(text) and str(int(text)) == text:
        return int(text)
    if re.fullmatch(_NUMBER, text) and not _WHOLE.fullmatch(text):
        return float(text)
    return text
