"""A model of this process as a module that other processes import.

    path = write_model(Net, directory, {})       # "ps_train_fit_model:Net"; directory must be on their path

A class that they can import needs no module: its path is its own.  The code of any other class travels with it, which
needs cloudpickle.
"""

from __future__ import annotations

import collections
import functools
import inspect
import io
import linecache
import marshal
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ps_train.base.errors import ConfigError, ModelError, headline
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
      ConfigError: an instance is given with arguments, or cloudpickle is needed and not installed.
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
        file.write(_pickled(model, what))
    with open(os.path.join(directory, f"{_MODULE}.py"), "w") as source:
        source.write(_SOURCE.format(name=name))
    return f"{_MODULE}:{name}"


def write_function(function: Callable[..., Any], directory: str, path: str) -> str:
    """Adds a function to the module that `write_model` wrote, or finds it in the model's own; returns its name.

    Args:
      function: its name becomes one of the module; that of a lambda is `space`.
      directory: directory of the module.
      path: the path of the model, `module:Class`.

    Raises:
      ConfigError: the model has a module of its own, in which the function is not.
    """
    name = function.__name__
    module = path.partition(":")[0]
    if module != _MODULE:
        if getattr(sys.modules.get(module), name, None) is function:
            return name
        raise ConfigError(f"{name} is not a function of {module}, the module of the model: put it there.")
    if not name.isidentifier():  # a lambda
        name = "space"
    with open(os.path.join(directory, f"{name}.pickle"), "wb") as file:
        file.write(_dumps_by_value(f"the function {name}", function.__module__)((function, {})))
    with open(os.path.join(directory, f"{_MODULE}.py"), "a") as source:
        source.write(f'{name} = read_model(os.path.dirname(__file__), "{name}.pickle")\n')
    return name


def read_model(directory: str, name: str = _PICKLE) -> Any:
    """Returns the class or function that was written; for an instance, a class whose only object it is."""
    with open(os.path.join(directory, name), "rb") as file:
        model, sources = pickle.load(file)
    for name, lines in sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    if isinstance(model, type | types.FunctionType):
        return model

    class Given(type(model)):  # type: ignore[misc]
        def __new__(cls) -> Any:
            return model

        def __init__(self) -> None: ...

    Given.__name__ = Given.__qualname__ = type(model).__name__
    return Given


def is_importable(value: Any) -> bool:
    """Returns True if another process can import a class or function by its module and name."""
    module = sys.modules.get(value.__module__ or "")
    if value.__module__ == "__main__" or getattr(module, "__spec__", None) is None:
        return False
    found: Any = module
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _pickled(model: Any, what: str) -> bytes:
    """Returns the pickle of a model and of the sources that are in no file: AutoGraph and errors show them."""
    kind = model if isinstance(model, type) else type(model)
    dumps = pickle.dumps if is_importable(kind) else _dumps_by_value(what, kind.__module__)
    cells = {name: entry for name, entry in linecache.cache.items() if not os.path.exists(name)}
    sources = {name: entry[2] for name, entry in cells.items() if len(entry) == 4}
    try:
        return dumps((model, sources))
    except Exception as error:
        culprit, cause = _culprit(model, what, error, dumps, set())
        raise ModelError(
            f"{what} cannot be sent to the processes that train, because of {culprit} ({headline(cause)}): make it "
            'inside the methods of the model, or put the model into a file and use fit("module:Class").'
        ) from None


def _dumps_by_value(what: str, module_name: str) -> Callable[[Any], bytes]:
    """Returns the function that pickles objects with their code, also that of a module which is in no file."""
    try:
        import cloudpickle
    except ImportError:
        raise ConfigError(
            f"fit() needs cloudpickle to send {what}, which other processes cannot import: pip install "
            'cloudpickle, or put the model into a file and use fit("module:Class").'
        ) from None

    class Pickler(cloudpickle.Pickler):
        dispatch_table = collections.ChainMap(
            {
                types.CodeType: lambda code: (marshal.loads, (marshal.dumps(code),)),  # keeps the name of its cell
                functools.cached_property: lambda found: (  # before Python 3.12 it has a lock
                    functools.cached_property,
                    (found.func,),
                    {"attrname": found.attrname},
                ),
            },
            cloudpickle.Pickler.dispatch_table,
        )

    module = sys.modules.get(module_name)
    is_nowhere = module is not None and module_name != "__main__" and module.__spec__ is None

    def dumps(value: Any) -> bytes:
        stream = io.BytesIO()
        if is_nowhere:
            cloudpickle.register_pickle_by_value(module)
        try:
            Pickler(stream).dump(value)
        finally:
            if is_nowhere:
                cloudpickle.unregister_pickle_by_value(module)
        return stream.getvalue()

    return dumps


def _culprit(value: Any, name: str, error: Exception, dumps: Any, seen: set[int]) -> tuple[str, Exception]:
    """Returns the name of the innermost part that cannot be pickled, and its error."""
    seen.add(id(value))
    for part_name, part in _parts(value, name):
        if id(part) not in seen:
            try:
                dumps(part)
            except Exception as part_error:
                return _culprit(part, part_name, part_error, dumps, seen)
    return name, error


def _parts(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yields name and value of the parts of a function, a class or an object."""
    if isinstance(value, types.FunctionType):
        used = inspect.getclosurevars(value)
        yield from {**used.globals, **used.nonlocals}.items()
    elif isinstance(value, type):
        if not is_importable(value):
            yield from ((f"{value.__name__}.{part}", found) for part, found in vars(value).items())
    elif hasattr(value, "__dict__") and not isinstance(value, types.ModuleType):
        yield from ((f"{name}.{part}", found) for part, found in vars(value).items())
        yield type(value).__name__, type(value)


def _shown(value: Any) -> str:
    text = value.__name__ if isinstance(value, type) else repr(value)
    return " ".join(text.split())[:80]
