"""Values of which only the annotation is known, and what their attributes and calls give.

    recorder = Instance(Recorder)
    returned(attribute(recorder, "events"))     # the Instance that the method's annotation says, or None

Classes and functions are themselves, and every other value is an Instance.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
import sys
import types
import typing

import ps_train

OPEN = {"abc", "builtins", "enum", "typing"}
"""Modules whose classes give no attributes that cannot be found."""


@dataclasses.dataclass
class Instance:
    """A value of a class, or of a class with arguments such as `list[int]`."""

    kind: typing.Any

    @property
    def cls(self):
        return typing.get_origin(self.kind) or self.kind

    @property
    def arguments(self):
        return typing.get_args(self.kind)


@functools.cache
def modules():
    """The modules of ps_train by name; not those that run a program."""
    names = [found.name for found in pkgutil.walk_packages(ps_train.__path__, "ps_train.")]
    return {name: importlib.import_module(name) for name in ["ps_train", *names] if not name.endswith("__main__")}


def is_ours(value):
    """True for classes and functions of ps_train, and for its modules."""
    return (getattr(value, "__module__", None) or getattr(value, "__name__", "")).partition(".")[0] == "ps_train"


@functools.cache
def known_names():
    """The classes and functions of ps_train by their names; None where several have one name."""
    found = {}
    for module in modules().values():
        for name, value in vars(module).items():
            if is_ours(value) and (inspect.isclass(value) or inspect.isfunction(value)):
                found.setdefault(name, set()).add(value)
    return {name: values.pop() if len(values) == 1 else None for name, values in found.items()}


def seen(value):
    """A function, class or module as it is; any other object as an Instance of its class."""
    is_known = value is None or isinstance(value, Instance) or callable(value) or inspect.ismodule(value)
    return value if is_known else Instance(type(value))


def instance(kind):
    """The Instance of an annotation; None where it does not tell one class."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kinds = [one for one in typing.get_args(kind) if one is not type(None)]
        kind = kinds[0] if len(kinds) == 1 else None
    return Instance(kind) if inspect.isclass(Instance(kind).cls) else None


def annotated(text, module):
    """The Instance of an annotation in the source of a module."""
    try:
        return instance(eval(text, {**known_names(), **vars(sys.modules[module])}))
    except (NameError, AttributeError, TypeError):
        return None


source_of = functools.cache(inspect.getsource)


def returned(function):
    """The Instance that a call gives; None where that is unknown."""
    if inspect.isclass(function):
        return Instance(function)
    if function is None:
        return None
    inner = inspect.unwrap(getattr(function, "__func__", function))
    text = getattr(inner, "__annotations__", {}).get("return")
    return annotated(text, inner.__module__) if isinstance(text, str) else None


def attribute(value, name):
    """An attribute of a real object or of an Instance.

    Returns:
      A function, class or module, an Instance, or None where it is unknown.

    Raises:
      AttributeError: if there is no such attribute.
    """
    if not isinstance(value, Instance):
        return seen(getattr(value, name))
    found = inspect.getattr_static(value.cls, name, None)
    if isinstance(found, staticmethod | classmethod):
        return getattr(value.cls, name)
    if isinstance(found, property | functools.cached_property):
        return returned(types.MethodType(found.fget if isinstance(found, property) else found.func, value))
    if callable(found) and not inspect.isclass(found):
        return types.MethodType(found, value)
    for base in filter(is_ours, value.cls.__mro__):
        if name in vars(base).get("__annotations__", {}):
            return annotated(base.__annotations__[name], base.__module__)
        if made := re.search(rf"\bself\.{name}\b(?:: .+)?(?: = (\w+)\()?", source_of(base)):
            return annotated(made[1], base.__module__) if made[1] else None
    is_closed = all(is_ours(base) or base.__module__ in OPEN for base in value.cls.__mro__)
    if found is None and is_closed and not hasattr(value.cls, "__getattr__"):
        raise AttributeError(f"{value.cls.__name__} has no {name}")
    return None
