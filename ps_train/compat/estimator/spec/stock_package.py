"""Modules of tensorflow-estimator 2.15.0 and tf-keras: the canned models and their heads.

    stock = StockPackage(stand_ins)
    stock.module("canned.dnn").DNNClassifier

The package was made for TensorFlow 2.15, and does not import with a later one.  Only its models and heads are imported,
as a copy of their own.  Their `tensorflow` has the Keras of tf-keras, whatever Keras the program uses.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

VERSION = "2.15.0"
_PACKAGE = "tensorflow_estimator"
_ROOT = f"{_PACKAGE}.python.estimator"
_TENSORFLOW = {"tensorflow": tf, "tensorflow.compat": tf.compat, "tensorflow.compat.v1": v1}
"""TensorFlow's own modules: a program may have others in their place."""

_OF_KERAS = ("losses", "metrics", "optimizers", "initializers")


def missing_package() -> str:
    """Returns the reason why the package cannot be used, or ""."""
    for name, module in (("tensorflow-estimator", _PACKAGE), ("tf-keras", "tf_keras")):
        if importlib.util.find_spec(module) is None:
            return f"{name} is not installed"
    try:
        version = importlib.metadata.version("tensorflow-estimator")
    except importlib.metadata.PackageNotFoundError:
        return ""  # a copy of its files
    return "" if version == VERSION else f"tensorflow-estimator {version} is installed"


class StockPackage:
    """A copy of the package's modules.

    Args:
      stand_ins: name of a module, "model_fn" for example, to the names that it has; imported in that module's place.
    """

    def __init__(self, stand_ins: Mapping[str, Mapping[str, Any]]) -> None:
        root = types.ModuleType(_PACKAGE)  # its own __init__ imports all of the package
        root.__path__ = package_locations()
        with _imported(dict(_TENSORFLOW)):
            self._modules = {**_tensorflow_with_tf_keras(), _PACKAGE: root}
        for name, values in stand_ins.items():
            self._modules[f"{_ROOT}.{name}"] = module = types.ModuleType(f"{_ROOT}.{name}")
            vars(module).update(values)

    def module(self, name: str) -> Any:
        """Returns a module of the package: "canned.dnn" for example."""
        with _imported(self._modules):
            return importlib.import_module(f"{_ROOT}.{name}")


@contextlib.contextmanager
def _imported(modules: dict[str, types.ModuleType]) -> Iterator[None]:
    """Has these among Python's modules within the body, and adds those that the body imports; then all is as before."""
    before = {name: module for name, module in sys.modules.items() if _is_own(name)}
    for name in before:
        del sys.modules[name]
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in [name for name in sys.modules if _is_own(name)]:
            modules[name] = sys.modules.pop(name)
        sys.modules.update(before)


def package_locations() -> list[str]:
    """Returns the directories of the installed package: none or one."""
    spec = importlib.machinery.PathFinder.find_spec(_PACKAGE)
    return list(spec.submodule_search_locations or ()) if spec is not None else []


def _is_own(name: str) -> bool:
    return name in _TENSORFLOW or name.partition(".")[0] == _PACKAGE


class _View(types.ModuleType):
    """A module with some other names."""

    def __init__(self, module: Any, **others: Any) -> None:
        super().__init__(module.__name__)
        self._module = module
        self.__path__ = getattr(module, "__path__", [])
        vars(self).update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _tensorflow_with_tf_keras() -> dict[str, types.ModuleType]:
    """Returns TensorFlow's modules as they were with Keras 2."""
    keras = importlib.import_module("tf_keras")
    of_v1 = importlib.import_module("tf_keras.api._v1.keras")
    layers = importlib.import_module("tf_keras.api._v1.keras.__internal__.legacy.layers")
    of_v2 = {name: getattr(keras, name) for name in _OF_KERAS}
    view_of_v1 = _View(v1, keras=of_v1, layers=layers)
    view_of_v2 = _View(tf.compat.v2, keras=keras, **of_v2)
    compat = _View(tf.compat, v1=view_of_v1, v2=view_of_v2)
    top = _View(tf, keras=keras, compat=compat, **of_v2)
    return {"tensorflow": top, "tensorflow.compat": compat, "tensorflow.compat.v1": view_of_v1}
