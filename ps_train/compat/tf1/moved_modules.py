"""Modules that TensorFlow has moved since TensorFlow 1, under the names by which libraries import them.

from tensorflow.python.keras.layers import Layer        # of tf-keras
from tensorflow.python.distribute import estimator_training
from tensorflow.python.util.tf_export import estimator_export

A module that is gone, or that only a fork of TensorFlow has, is refused in one line.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1.absent_names import refuse_import
from ps_train.compat.tf1.contrib import ContribModule, names_of
from ps_train.compat.tf1.lazy_module import NameSource
from ps_train.compat.tf1.variables import Variable

_KERAS = "python.keras"
_KERAS_NOW = "tf_keras.src"

_CONTEXT = "python.distribute.distribute_lib"
_MOVED = {
    "python.distribute.distribution_strategy_context": _CONTEXT,
    "python.training.distribution_strategy_context": _CONTEXT,
    "python.training.training_ops": "python.ops.gen_training_ops",
}
"""New names of TensorFlow's own modules."""


def estimator_export(*exported: str, **options: Any) -> Any:
    """Returns a decorator that changes nothing: no table of exported names is kept."""
    return lambda value: value


def _should_run_distribute_coordinator(config: Any) -> bool:
    """Returns False: tasks of a cluster train without a coordinator."""
    return False


_MADE: dict[str, Mapping[str, Any]] = {
    "python.distribute.estimator_training": {"should_run_distribute_coordinator": _should_run_distribute_coordinator},
}
"""Modules that are gone, with the names that are left of them."""


def get_variables_path(export_dir: str) -> str:
    """Returns the path of the variables in a SavedModel, without the endings of its files."""
    return os.path.join(tf.compat.as_text(export_dir), "variables", "variables")


_MORE: dict[str, Mapping[str, Any]] = {
    "python.util.tf_export": {"estimator_export": estimator_export},
    "python.saved_model.utils_impl": {"get_variables_path": get_variables_path},
    "python.ops.resource_variable_ops": {"_from_proto_fn": Variable.from_proto},
    "python.ops.variable_scope": {"variable": v1.Variable},
    "python.ops.variables": {"RefVariable": Variable, "VariableV1": Variable},
    "python.util.nest": {"is_sequence": tf.nest.is_nested},
    "core.protobuf.config_pb2": {"RPCOptions": type(v1.ConfigProto().rpc_options)},
}
"""Names that modules of today have lost, which they get back."""


_HOMES = {
    "python.ops": (v1, v1.nn, v1.math, v1.linalg),
    "python.framework": (v1, v1.graph_util),
    "python.training": (v1.train, v1),
    "python.summary": (v1.summary,),
}
"""Public modules that still have the names that private modules below a package have lost, `array_ops.stack` as
`tf.stack` for example."""


def _find_lost_names(prefix: str) -> None:
    """Lets the loaded private modules find lost names in public ones.

    Args:
      prefix: the name of TensorFlow's package and a dot.
    """
    for fullname, module in list(sys.modules.items()):
        package = next((each for each in _HOMES if fullname.startswith(f"{prefix}{each}.")), None)
        if package is not None and type(module) is types.ModuleType and "__getattr__" not in vars(module):
            vars(module)["__getattr__"] = functools.partial(_lost_name, fullname, names_of(*_HOMES[package]))


def _lost_name(fullname: str, homes: NameSource, name: str) -> Any:
    """Returns the value of a public name that a private module has lost; AttributeError: it is not public."""
    if not name.startswith("_"):
        try:
            return homes.find(name)
        except AttributeError:
            pass
    raise AttributeError(f"module {fullname!r} has no attribute {name!r}")


class MovedModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder and loader of these modules.

    Args:
      tensorflow: the name of TensorFlow's package.
    """

    def __init__(self, tensorflow: str) -> None:
        self._prefix = f"{tensorflow}."

    def install(self) -> None:
        """Comes before the other finders; modules that TensorFlow has loaded itself stay with TensorFlow."""
        sys.meta_path.insert(0, self)
        sys.meta_path.append(_AbsentModules(self._prefix))
        if importlib.util.find_spec("tf_keras") is not None:
            for name in [name for name in sys.modules if _is_below(name, self._prefix + _KERAS)]:
                del sys.modules[name]
        for name, values in _MORE.items():
            module = importlib.import_module(self._prefix + name)
            for lost in values.keys() - vars(module).keys():
                setattr(module, lost, values[lost])
        _find_lost_names(self._prefix)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of one of these modules; None for another."""
        if not fullname.startswith(self._prefix):
            return None
        name = fullname.removeprefix(self._prefix)
        if name not in _MADE and name not in _MOVED and not self._of_keras(name):
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        found = importlib.machinery.PathFinder.find_spec(fullname, path)
        spec.submodule_search_locations = list((found and found.submodule_search_locations) or ())
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Returns the module."""
        name = spec.name.removeprefix(self._prefix)
        if name in _MADE:
            return ContribModule(spec.name, _MADE[name])
        new = self._of_keras(name) or self._prefix + _MOVED[name]
        homes = [importlib.import_module(new), *_public_keras(name)]
        module = ContribModule(spec.name, {}, names_of(*homes))
        module.__path__ = list(spec.submodule_search_locations or ())  # of parts that tf-keras does not have
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Does nothing: the module has its names."""

    def _of_keras(self, name: str) -> str:
        """Returns the name in tf-keras of a module of TensorFlow's Keras; "" for another one."""
        if not _is_below(name, _KERAS):
            return ""
        new = _KERAS_NOW + name.removeprefix(_KERAS)
        try:
            return new if importlib.util.find_spec(new) is not None else ""
        except ModuleNotFoundError:
            return ""


class _AbsentModules(importlib.abc.MetaPathFinder):
    """The last finder: it refuses a module of TensorFlow that no other finder has.

    Args:
      prefix: the name of TensorFlow's package and a dot.
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Raises ImportError for a module below `tensorflow`."""
        if fullname.startswith(self._prefix):
            refuse_import(fullname)


def _public_keras(name: str) -> list[Any]:
    """Returns the public module of tf-keras for one of TensorFlow's Keras: it has what the private one has lost."""
    if not _is_below(name, _KERAS):
        return []
    found: Any = importlib.import_module("tf_keras")
    for part in name.removeprefix(_KERAS).split(".")[1:]:
        found = getattr(found, part, None)
    return [found] if isinstance(found, types.ModuleType) else []


def _is_below(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")
