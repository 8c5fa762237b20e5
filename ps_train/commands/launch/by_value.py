"""Pickles of classes and functions that no other process can import: those of scripts, notebooks and functions.

    data = dumps(Net)                        # Net is defined in a notebook cell
    Net = loads(data)                        # in a new process of the same Python

The code of such a class or function is part of the pickle, with the global names that it uses.  All other objects are
pickled as usual.  Standard library only.
"""

from __future__ import annotations

import abc
import builtins
import dataclasses
import dis
import functools
import importlib
import io
import linecache
import marshal
import os
import pickle
import sys
import types
from collections.abc import Iterator
from typing import Any

from ps_train.base.errors import ModelError, headline

_GLOBAL_OPS = ("LOAD_GLOBAL", "LOAD_NAME")
_MADE_BY_TYPE = ("__dict__", "__weakref__", "_abc_impl", "__module__", "__qualname__", "__doc__", "__slots__")
_METACLASSES = (type, abc.ABCMeta)
_namespaces: dict[str, dict[str, Any]] = {}


def dumps(value: Any, what: str) -> bytes:
    """Returns the pickle of a value.

    Args:
      value: the value.
      what: name of the value, for the error.

    Raises:
      ModelError: the value, or something that it uses, cannot be pickled; the text names it.
    """
    try:
        return _pickled(value)
    except Exception as error:
        culprit, cause = _find_culprit(value, what, error, set())
        raise ModelError(
            f"{what} cannot be sent to the processes that train, because of {culprit} ({headline(cause)}): make it "
            'inside the methods of the model, or put the model into a file and use fit("module:Class").'
        ) from None


def loads(data: bytes) -> Any:
    """Returns the value of a pickle."""
    return pickle.loads(data)


def is_importable(value: Any) -> bool:
    """Returns True if another process can import a class or function by its module and name."""
    module = sys.modules.get(value.__module__ or "")
    if value.__module__ == "__main__" or getattr(module, "__spec__", None) is None:
        return False
    found: Any = module
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


def _pickled(value: Any) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """Returns the reduction of a module, and of code that cannot be imported."""
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (_module_name(value),)
        if isinstance(value, types.FunctionType) and not is_importable(value):
            return _reduce_function(value)
        if isinstance(value, type) and value.__module__ != "builtins" and not is_importable(value):
            return _reduce_class(value)
        if isinstance(value, staticmethod | classmethod):
            return type(value), (value.__func__,)
        if isinstance(value, property):
            return property, (value.fget, value.fset, value.fdel, value.__doc__)
        if isinstance(value, functools.cached_property):
            return functools.cached_property, (value.func,), {"attrname": value.attrname}
        if isinstance(value, types.MappingProxyType):
            return _read_only, (dict(value),)
        if type(value).__module__ == "dataclasses":  # constants that are compared by identity
            known = [name for name, found in vars(dataclasses).items() if found is value]
            return (getattr, (dataclasses, known[0])) if known else NotImplemented
        return NotImplemented


def _read_only(values: dict[Any, Any]) -> types.MappingProxyType[Any, Any]:
    return types.MappingProxyType(values)


def _module_name(module: types.ModuleType) -> str:
    """Returns a name under which the module can be imported."""
    if sys.modules.get(module.__name__) is module:
        return module.__name__
    return next((name for name, found in list(sys.modules.items()) if found is module), module.__name__)


def _reduce_function(function: types.FunctionType) -> Any:
    code, cells = function.__code__, function.__closure__ or ()
    module = function.__globals__.get("__name__", "__main__")
    own = ("__defaults__", "__kwdefaults__", "__annotations__", "__doc__", "__qualname__", "__module__")
    state = {
        "globals": dict(_globals_of(function)),
        "closure": [_contents(cell) for cell in cells],
        "attributes": {**{name: getattr(function, name) for name in own}, **vars(function)},
        "source": _source_lines(code.co_filename),
    }
    arguments = (marshal.dumps(code), module, function.__name__, len(cells))
    return _new_function, arguments, state, None, None, _fill_function


def _new_function(code: bytes, module: str, name: str, cells: int) -> types.FunctionType:
    """Makes a function without its state; all functions of a module share their global names."""
    namespace = _namespaces.setdefault(module, {"__name__": module, "__builtins__": builtins})
    closure = tuple(types.CellType() for _ in range(cells))
    return types.FunctionType(marshal.loads(code), namespace, name, None, closure)


def _fill_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    function.__globals__.update(state["globals"])
    for cell, contents in zip(function.__closure__ or (), state["closure"], strict=True):
        if contents:
            (cell.cell_contents,) = contents
    for name, value in state["attributes"].items():
        setattr(function, name, value)
    if state["source"]:  # AutoGraph and error messages show it
        filename, lines = state["source"]
        linecache.cache[filename] = (sum(map(len, lines)), None, lines, filename)


def _contents(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # it has no value yet
        return ()


def _source_lines(filename: str) -> tuple[str, list[str]] | None:
    """Returns the source of a notebook's cell, which is in no file."""
    lines = [] if os.path.exists(filename) else linecache.getlines(filename)
    return (filename, lines) if lines else None


def _globals_of(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yields name and value of each global that the code of a function uses."""
    pending, names = [function.__code__], dict[str, None]()
    while pending:
        code = pending.pop()
        names |= {found.argval: None for found in dis.get_instructions(code) if found.opname in _GLOBAL_OPS}
        pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    for name in names:
        if name in function.__globals__:
            yield name, function.__globals__[name]


def _reduce_class(kind: type) -> Any:
    if type(kind) not in _METACLASSES:
        raise pickle.PicklingError(f"class {kind.__qualname__} is of the metaclass {type(kind).__name__}")
    first = {name: vars(kind)[name] for name in ("__module__", "__doc__", "__slots__") if name in vars(kind)}
    first["__qualname__"] = kind.__qualname__
    made = (types.MemberDescriptorType, types.GetSetDescriptorType)
    state = {
        name: value
        for name, value in vars(kind).items()
        if name not in _MADE_BY_TYPE and not isinstance(value, made)
    }  # fmt: skip
    return _new_class, (type(kind), kind.__name__, kind.__bases__, first), state, None, None, _fill_class


def _new_class(metaclass: Any, name: str, bases: tuple[type, ...], first: dict[str, Any]) -> Any:
    return metaclass(name, bases, first)


def _fill_class(kind: type, state: dict[str, Any]) -> None:
    for name, value in state.items():
        setattr(kind, name, value)


def _find_culprit(value: Any, name: str, error: Exception, seen: set[int]) -> tuple[str, Exception]:
    """Returns the name of the innermost part that cannot be pickled, and its error."""
    seen.add(id(value))
    for part_name, part in _parts(value, name):
        if id(part) not in seen:
            try:
                _pickled(part)
            except Exception as part_error:
                return _find_culprit(part, part_name, part_error, seen)
    return name, error


def _parts(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yields name and value of the parts of a class, a function or an object."""
    if isinstance(value, types.FunctionType):
        yield from _globals_of(value)
        cells = [_contents(cell) for cell in value.__closure__ or ()]
        yield from ((free, found[0]) for free, found in zip(value.__code__.co_freevars, cells, strict=True) if found)
    elif isinstance(value, type) and type(value) in _METACLASSES:
        own = [(f"{value.__name__}.{part}", found) for part, found in vars(value).items() if part not in _MADE_BY_TYPE]
        yield from (pair for pair in own if not is_importable(value))
        yield from ((base.__name__, base) for base in value.__bases__)
    elif hasattr(value, "__dict__") and not isinstance(value, types.ModuleType | type):
        yield type(value).__name__, type(value)
        yield from ((f"{name}.{part}", found) for part, found in vars(value).items())
