"""A model of this process as a module that other processes import.

    path = write_model(Net, directory)       # "ps_train_fit_model:Net"; directory must be on their path

A class that they can import needs no module: its path is its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ps_train.base.errors import ConfigError, ModelError
from ps_train.commands.launch.by_value import dumps, is_importable, loads
from ps_train.modeling.model import Model

_MODULE = "ps_train_fit_model"
_SOURCE = '''"""The model that was given to ps_train.fit."""

import os

from ps_train.commands.launch.sent_model import read_model

{name} = read_model(os.path.dirname(__file__))
'''
_PICKLE = "model.pickle"


def write_model(model: Any, directory: str, arguments: Mapping[str, Any]) -> str:
    """Returns the path of a model, `module:Class`; writes a module for it where that is necessary.

    Args:
      model: a class, an instance, or a path.
      directory: directory for the module.
      arguments: arguments of the constructor.

    Raises:
      ModelError: the model is none of these, or cannot be sent.
      ConfigError: an instance is given with arguments.
    """
    if isinstance(model, str):
        return model
    is_class = isinstance(model, type)
    kind = model if is_class else type(model)
    if not issubclass(kind, Model) or kind is Model:
        raise ModelError(
            f"fit() got {_shown(model)} as its model: use a subclass of ps_train.Model, an instance of one, or "
            '"package.module:Class".'
        )
    if arguments and not is_class:
        raise ConfigError(
            f"model_arg={dict(arguments)} (from fit()) is for a class, but the model is an instance of "
            f"{type(model).__name__}: give the arguments to its constructor."
        )
    name = kind.__name__
    if is_class and is_importable(model) and "." not in model.__qualname__:
        return f"{model.__module__}:{name}"
    what = f"class {name}" if is_class else f"an instance of {name}"
    with open(os.path.join(directory, _PICKLE), "wb") as file:
        file.write(dumps(model, what))
    with open(os.path.join(directory, f"{_MODULE}.py"), "w") as source:
        source.write(_SOURCE.format(name=name))
    return f"{_MODULE}:{name}"


def read_model(directory: str) -> type:
    """Returns the class that `write_model` wrote; for an instance, a class whose only object it is."""
    with open(os.path.join(directory, _PICKLE), "rb") as file:
        model = loads(file.read())
    if isinstance(model, type):
        return model

    class Given(type(model)):  # type: ignore[misc]
        def __new__(cls) -> Any:
            return model

        def __init__(self) -> None: ...

    Given.__name__ = Given.__qualname__ = type(model).__name__
    return Given


def _shown(value: Any) -> str:
    text = value.__name__ if isinstance(value, type) else repr(value)
    return " ".join(text.split())[:80]
