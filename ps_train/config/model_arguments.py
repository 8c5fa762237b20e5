"""The model's path and the arguments of its constructor, as `--model` and `--model_arg` give them.

    split_model_path("package.module:Net")                           # ("package.module", "Net")
    convert_arguments("m:Net", parameters, {"hidden": "64"}, {})     # {"hidden": 64}

The parameters are those of the class, or what its file says of them (`model_file.py`).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

from ps_train.base.errors import ModelError
from ps_train.config.fields import shown, source_of

_KINDS = {bool: "bool: true or false", int: "int: a whole number", float: "float: a number"}


def split_model_path(path: str) -> tuple[str, str]:
    """Returns the module and the class of `package.module:Class`; raises ModelError for another form."""
    module_name, colon, class_name = path.partition(":")
    if not colon or not all(name.isidentifier() for name in [*module_name.split("."), class_name]):
        hint = _hint(module_name, class_name)
        raise ModelError(f"model={path} is not of the form package.module:Class{hint}.")
    return module_name, class_name


def missing_module(path: str, name: str) -> ModelError:
    """Returns the error for a module that is not found."""
    hint = _hint(*path.split(":", 1))
    return ModelError(
        f"model={path}: there is no module {name!r} (looked in the working directory and in sys.path){hint}."
    )


def _hint(module_name: str, class_name: str) -> str:
    """Returns the advice for the path of a file in the place of a module; "" for a module."""
    if not module_name.endswith(".py") and "/" not in module_name:
        return ""
    name = os.path.normpath(module_name.removesuffix(".py")).strip("./").replace("/", ".")
    return f": use the name of the module, --model={name}:{class_name or 'CLASS'}"


def convert_arguments(
    path: str, parameters: Mapping[str, inspect.Parameter], arguments: Mapping[str, str], sources: Mapping[str, str]
) -> dict[str, Any]:
    """Converts texts to the types that the constructor's parameters are annotated with.

    Args:
      path: the model.
      parameters: the constructor's parameters.
      arguments: name to text.
      sources: `name=text` to its source, for errors.

    Raises:
      ModelError: an argument is unknown, missing, or of another type.
    """
    has_kwargs = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    named = {name: p for name, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    for name, text in arguments.items():
        if name not in named and not has_kwargs:
            source = source_of(sources, f"{name}={text}")
            raise ModelError(
                f"model_arg {name}{source} is not an argument of {path}: it takes {', '.join(named) or 'none'}."
            )
    for name, parameter in named.items():
        if parameter.default is parameter.empty and name not in arguments:
            raise ModelError(f"{path} needs the argument {name}: give it with --model_arg={name}=VALUE.")
    return {name: _convert(name, text, named.get(name), (path, sources)) for name, text in arguments.items()}


def _convert(name: str, text: str, parameter: inspect.Parameter | None, where: tuple[str, Mapping[str, str]]) -> Any:
    annotation = getattr(parameter, "annotation", "")
    annotation = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    words = annotation.replace("Optional[", "").replace("]", "").split("|")
    kind = next((kind for kind in (bool, int, float) if kind.__name__ in map(str.strip, words)), str)
    if kind is bool:
        if text.lower() in ("true", "1", "yes"):
            return True
        if text.lower() in ("false", "0", "no"):
            return False
    elif kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    else:
        return text
    path, sources = where
    given = f"model_arg {name}={shown(text) if text else ''}{source_of(sources, f'{name}={text}')}"
    raise ModelError(f"{given} is not valid for {path}: use {_KINDS[kind]}.")
