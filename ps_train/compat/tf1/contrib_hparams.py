"""The names of `tf.contrib.training` for hyperparameters: `HParams`, and the reader of their texts.

hparams = HParams(learning_rate=0.1, hidden_units=[64, 32])
hparams.parse("learning_rate=0.3,hidden_units=[128,64]")
HParams(hparam_def=hparams.to_proto())      # the same
"""

from __future__ import annotations

import json
import numbers
import re
from collections.abc import Mapping
from typing import Any

from ps_train.compat.tf1 import hparam_messages

__all__ = ["HParams", "parse_values"]

_ASSIGNMENT = re.compile(
    r"(?P<name>[A-Za-z][\w.]*)\s*(?:\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
    r"(?:\[(?P<list>[^\]]*)\]|(?P<value>[^,\[]*))\s*(?:,\s*|$)"
)
_BOOLS = {"true": True, "1": True, "false": False, "0": False}


class HParams:
    """Hyperparameters as attributes, each of which keeps its type.

    Args:
      hparam_def: a message with further hyperparameters, an `HParamDef`.
      model_structure: any value of the program.
      **kwargs: the hyperparameters; a list has values of one type.

    Raises:
      ValueError: a name is one of this class or stands twice, or a list is empty.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        self._types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        given = {} if hparam_def is None else hparam_messages.values_of(hparam_def)
        for name, value in [*given.items(), *kwargs.items()]:
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a hyperparameter.

        Args:
          name: an attribute of this object from now on.
          value: of which later values have the type; a list or tuple is a list of such values.

        Raises:
          ValueError: the name is in use, or the list is empty.
        """
        if getattr(self, name, None) is not None:
            raise ValueError(f"the hyperparameter {name!r} is there already, or is a name of HParams: use another name")
        is_list = isinstance(value, list | tuple)
        if is_list and not value:
            raise ValueError(f"the hyperparameter {name!r} is an empty list: give at least one value")
        self._types[name] = (type(value[0] if is_list else value), is_list)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Gives a hyperparameter another value, of its type.

        Raises:
          KeyError: there is no such hyperparameter.
          ValueError: the value is of another type.
        """
        if name not in self._types:
            raise KeyError(f"{name!r} is not a hyperparameter: use one of {', '.join(sorted(self._types))}")
        kind, is_list = self._types[name]
        if isinstance(value, list) != is_list:
            raise ValueError(
                f"the hyperparameter {name!r} {'is' if is_list else 'is not'} a list, and {value!r} is given"
            )
        setattr(self, name, [_cast(name, kind, each) for each in value] if is_list else _cast(name, kind, value))

    def del_hparam(self, name: str) -> None:
        """Removes a hyperparameter, if it is there."""
        if self._types.pop(name, None) is not None:
            delattr(self, name)

    def parse(self, values: str) -> HParams:
        """Sets hyperparameters from a text; returns this object.

        Args:
          values: assignments with commas between them: `rate=0.1,units=[64,32],units[1]=16`.

        Raises:
          ValueError: a name is not known, or a value is not of its type.
        """
        kinds = {name: kind for name, (kind, _) in self._types.items()}
        for name, value in parse_values(values, kinds).items():
            if isinstance(value, dict):
                changed = list(getattr(self, name))
                for index, each in value.items():
                    changed[index] = each
                value = changed
            self.set_hparam(name, value)
        return self

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        """Sets hyperparameters by name; returns this object.  The errors are those of `set_hparam`."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    set_from_map = override_from_dict

    def parse_json(self, values_json: str) -> HParams:
        """Sets hyperparameters from an object of JSON; returns this object.  The errors are those of `set_hparam`."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(
        self, indent: int | None = None, separators: tuple[str, str] | None = None, sort_keys: bool = False
    ) -> str:
        """Returns the hyperparameters but functions as an object of JSON; the arguments are those of `json.dumps`."""
        values = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def values(self) -> dict[str, Any]:
        """Returns all hyperparameters by name."""
        return {name: getattr(self, name) for name in self._types}

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a hyperparameter, or `default` if there is none of this name.

        Raises:
          ValueError: the default is not of the hyperparameter's type.
        """
        if key not in self._types:
            return default
        kind, is_list = self._types[key]
        if default is not None:
            if isinstance(default, list) != is_list:
                raise ValueError(
                    f"the hyperparameter {key!r} {'is' if is_list else 'is not'} a list, and the default is {default!r}"
                )
            for each in default if is_list else [default]:
                _cast(key, kind, each)
        return getattr(self, key)

    def to_proto(self, export_scope: str | None = None) -> Any:
        """Returns the hyperparameters as an `HParamDef`; `export_scope` is not used.

        Raises:
          ValueError: a value is neither an int, a float, a bool nor a text.
        """
        return hparam_messages.message_of({name: (getattr(self, name), *self._types[name]) for name in self._types})

    @staticmethod
    def from_proto(hparam_def: Any, import_scope: str | None = None) -> HParams:
        """Returns the hyperparameters of an `HParamDef`; `import_scope` is not used."""
        return HParams(hparam_def=hparam_def)

    def get_model_structure(self) -> Any:
        """Returns the value that was given as `model_structure`."""
        return self._model_structure

    def set_model_structure(self, model_structure: Any) -> None:
        """Keeps another such value."""
        self._model_structure = model_structure

    def __contains__(self, key: str) -> bool:
        return key in self._types

    def __str__(self) -> str:
        return str(sorted(self.values().items()))

    def __repr__(self) -> str:
        return f"HParams({self})"


def parse_values(values: str, type_map: Mapping[str, type], ignore_unknown: bool = False) -> dict[str, Any]:
    """Returns the hyperparameters that a text assigns, by name; {index: value} for `name[index]=value`.

    Args:
      values: assignments with commas between them: `rate=0.1,units=[64,32]`.
      type_map: name to type.
      ignore_unknown: whether other names are left out.

    Raises:
      ValueError: the text has another form, assigns a name twice or an unknown one, or a value is not of its type.
    """
    found: dict[str, Any] = {}
    text, position = values.strip(), 0
    while position < len(text):
        match = _ASSIGNMENT.match(text, position)
        if match is None:
            raise ValueError(
                f"{text[position:]!r} in the hyperparameters {values!r} is not name=value or name=[values]"
            )
        position, name, index = match.end(), match["name"], match["index"]
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError(f"{name!r} is not a hyperparameter: use one of {', '.join(sorted(type_map))}")
        kind = type_map[name]
        if name in found and (index is None or not isinstance(found[name], dict) or int(index) in found[name]):
            raise ValueError(f"the hyperparameter {name!r} is twice in {values!r}")
        if match["list"] is not None:
            if index is not None:
                raise ValueError(f"{match[0]!r} assigns a list to one value of the hyperparameter {name!r}")
            texts = [each.strip() for each in match["list"].split(",")]
            found[name] = [_read(name, kind, each) for each in texts if each]
        elif index is None:
            found[name] = _read(name, kind, match["value"].strip())
        else:
            found.setdefault(name, {})[int(index)] = _read(name, kind, match["value"].strip())
    return found


def _read(name: str, kind: type, text: str) -> Any:
    """Returns the value of a type that a text stands for."""
    try:
        return _BOOLS[text.lower()] if kind is bool else kind(text)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{text!r} for the hyperparameter {name!r} is not of the type {kind.__name__}") from None


def _cast(name: str, kind: type, value: Any) -> Any:
    """Returns a value as one of a type: a whole number may become a float, and nothing else changes its kind."""
    if kind is type(None) or value is None:
        return value
    if isinstance(value, str | bytes) and issubclass(kind, str | bytes):
        return value
    if isinstance(value, bool) == issubclass(kind, bool):
        if isinstance(value, kind):
            return value
        if issubclass(kind, float) and isinstance(value, numbers.Real):
            return kind(value)
        if issubclass(kind, int) and isinstance(value, numbers.Integral):
            return kind(value)
    raise ValueError(f"{value!r} for the hyperparameter {name!r} is not of the type {kind.__name__}")
