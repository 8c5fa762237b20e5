"""A facade of TensorFlow 1: a script's own `import tensorflow as tf` finds the names that it was written for.

    facade.install()
    import tensorflow as tf         # tf.placeholder, tf.train.Server of ps_train, tf.contrib, tf.estimator, tf.layers

A name is looked for among the substitutes, then in `tf.compat.v1`, then in today's TensorFlow.  An absent name says in
one line what to use.  Modules of ps_train that are imported later get TensorFlow itself.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import logging
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1 import layers, mnist_input
from ps_train.compat.tf1.absent_names import refusal
from ps_train.compat.tf1.contrib import ContribModule, make_contrib
from ps_train.compat.train import names
from ps_train.compat.train.sessions import Session

_NAME = "tensorflow"
_V1 = "tensorflow.compat.v1"


class Facade(types.ModuleType):
    """The module `tensorflow` of a script.

    Args:
      substitutes: names that ps_train provides.
    """

    def __init__(self, substitutes: dict[str, Any]) -> None:
        super().__init__(_NAME, tf.__doc__)
        for name in ("__path__", "__file__", "__spec__", "__version__"):
            setattr(self, name, getattr(tf, name))
        self.__dict__.update(substitutes)

    def __getattr__(self, name: str) -> Any:
        if name == "estimator":
            return _estimator()
        if name == "keras":
            return _keras()
        for home in (v1, tf):
            if hasattr(home, name):
                return getattr(home, name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(refusal(f"{_NAME}.{name}"))

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *dir(v1), *dir(tf), "estimator"})


class _AbsentModules(importlib.abc.MetaPathFinder):
    """A finder for modules of TensorFlow 1 that are gone: it finds tf.estimator, and refuses the others."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if fullname == f"{_NAME}.estimator":
            return importlib.machinery.ModuleSpec(fullname, _EstimatorLoader())
        if fullname.startswith((f"{_NAME}.contrib", f"{_NAME}.examples")):
            raise ModuleNotFoundError(refusal(fullname))
        return None


class _OwnModules(importlib.abc.MetaPathFinder):
    """A finder of ps_train's modules, which get TensorFlow itself."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if fullname.partition(".")[0] != __name__.partition(".")[0]:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _OwnLoader(spec.loader.name, spec.loader.path)
        return spec


class _OwnLoader(importlib.machinery.SourceFileLoader):
    """The loader of a module of ps_train."""

    def exec_module(self, module: types.ModuleType) -> None:
        with real_modules():
            super().exec_module(module)


class _EstimatorLoader(importlib.abc.Loader):
    """The loader of `tensorflow.estimator`."""

    def create_module(self, spec: Any) -> Any:
        return _Namespace(spec.name, {}, _estimator())

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _Namespace(types.ModuleType):
    """A module that has its own names, and those of another for the rest."""

    def __init__(self, name: str, values: dict[str, Any], other: Any) -> None:
        super().__init__(name, other.__doc__)
        self.__path__: list[str] = []
        self.__dict__.update(values)
        self._other = other

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._other, name)


def install() -> Facade:
    """Makes `import tensorflow`, and `import tensorflow.compat.v1`, give the facade; returns it.

    Graphs are built and run in sessions from now on, and dimensions of shapes have a `value`, as in TensorFlow 1.
    """
    v1.disable_eager_execution()
    v1.disable_v2_tensorshape()
    logging.getLogger(_NAME).propagate = False  # or absl's handler writes each line again
    contrib = make_contrib(_estimator)
    examples = _examples()
    facade = Facade({"Session": Session, "contrib": contrib, "examples": examples, "layers": _layers(), "train": names})
    compat = _Namespace(f"{_NAME}.compat", {"v1": facade}, tf.compat)
    facade.__dict__["compat"] = compat
    _real.update({name: sys.modules[name] for name in (_NAME, f"{_NAME}.compat", _V1) if name in sys.modules})
    sys.modules.update({_NAME: facade, f"{_NAME}.compat": compat, _V1: facade})
    sys.modules.update({f"{_NAME}.train": names, f"{_NAME}.layers": facade.__dict__["layers"]})
    for module in (contrib, examples):
        _register(module)
    sys.meta_path[:0] = [_AbsentModules(), _OwnModules()]
    _free_flags_of_absl()
    return facade


def _free_flags_of_absl() -> None:
    """Lets a script define `log_dir`, `v`, `verbosity` and the other flags that absl's logging has."""
    for flag in v1.flags.FLAGS.flags_by_module_dict().get("absl.logging", []):
        flag.allow_override = True
    # absl asks the flags of these names for this at the begin of `app.run`; those of a script have nothing to do.
    for method in ("_update_logging_levels", "_update_logger_levels"):
        setattr(v1.flags.Flag, method, lambda flag: None)


_real: dict[str, Any] = {}
"""TensorFlow's own modules, in whose place the facade is in `sys.modules`."""


@contextlib.contextmanager
def real_modules() -> Iterator[None]:
    """Gives TensorFlow itself to modules that are imported within the body."""
    present = {name: sys.modules[name] for name in _real}
    sys.modules.update(_real)
    try:
        yield
    finally:
        sys.modules.update(present)


def _estimator() -> Any:
    return importlib.import_module("ps_train.estimator")


def _keras() -> Any:
    with real_modules():
        _ = tf.keras.__version__  # Keras is imported by this
    return tf.keras


def _layers() -> Any:
    own = {name: getattr(layers, name) for name in layers.__all__}
    return ContribModule(f"{_NAME}.layers", own)


def _examples() -> Any:
    input_data = types.ModuleType(f"{_NAME}.examples.tutorials.mnist.input_data", mnist_input.__doc__)
    input_data.__dict__.update({name: getattr(mnist_input, name) for name in mnist_input.__all__})
    mnist = ContribModule(f"{_NAME}.examples.tutorials.mnist", {"input_data": input_data})
    tutorials = ContribModule(f"{_NAME}.examples.tutorials", {"mnist": mnist})
    return ContribModule(f"{_NAME}.examples", {"tutorials": tutorials})


def _register(module: Any) -> None:
    """Makes a module, and the modules in it, importable by their names."""
    sys.modules[module.__name__] = module
    for value in list(module.__dict__.values()):
        if isinstance(value, types.ModuleType) and value.__name__.startswith(module.__name__ + "."):
            _register(value)
