"""A facade of TensorFlow 1: a script's own `import tensorflow as tf` finds the names that it was written for.

    facade.install()
    import tensorflow as tf         # tf.placeholder, tf.train.Server of ps_train, tf.contrib, tf.estimator, tf.layers

A name is looked for among the substitutes, then in `tf.compat.v1`, then in today's TensorFlow.  An absent name says in
one line what to use.  A module is imported as it is reached: `import tensorflow.nn.rnn_cell` gives `tf.nn.rnn_cell`.
Modules of ps_train, Keras and tf-slim that are imported later get TensorFlow itself.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.graph_names import give_values_by_name
from ps_train.base.private_tf import lock_additions
from ps_train.compat.tf1 import layers, legacy, lost_names, mnist_input, mnist_network, old_names
from ps_train.compat.tf1.absent_names import refusal
from ps_train.compat.tf1.contrib import ContribModule, make_contrib, public_names
from ps_train.compat.tf1.estimator_modules import EstimatorModules
from ps_train.compat.tf1.moved_modules import MovedModules
from ps_train.compat.tf1.variables import Variable, import_graph_def
from ps_train.compat.train import names
from ps_train.compat.train.sessions import Session

_NAME = "tensorflow"
_V1 = "tensorflow.compat.v1"
_FOLDER = os.path.dirname(tf.__file__)
_WHICH_KERAS = "TF_USE_LEGACY_KERAS"


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
        for home in (v1, tf):
            if hasattr(home, name):
                return _with_advice(self, name, getattr(home, name))
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(refusal(f"{_NAME}.{name}"))

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *dir(v1), *dir(tf), "estimator"})


class _ScriptModules(importlib.abc.MetaPathFinder):
    """A finder of the facade's modules that a script imports, such as `tensorflow.keras.layers`.

    Modules that TensorFlow itself has in a folder, such as `tensorflow.python`, are left to Python.
    """

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        parent_name, _, name = fullname.rpartition(".")
        parent = sys.modules.get(parent_name)
        if not isinstance(parent, Facade | Namespace | ContribModule):
            return None
        if isinstance(parent, Facade) and importlib.machinery.PathFinder.find_spec(fullname, [_FOLDER]):
            return None
        try:
            found = getattr(parent, name)
        except AttributeError as error:
            found = parent.submodule(name) if isinstance(parent, Namespace) else None
            if found is None and not isinstance(parent, Facade):
                raise ModuleNotFoundError(str(error)) from None
        if not isinstance(found, types.ModuleType):
            return None
        return importlib.machinery.ModuleSpec(fullname, _AliasLoader(found))


_OWN = {__name__.partition(".")[0], "keras", "tf_keras", "tf_slim"}
"""Packages that are written for TensorFlow itself."""


class _OwnModules(importlib.abc.MetaPathFinder):
    """A finder of the modules that get TensorFlow itself."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if fullname.partition(".")[0] not in _OWN:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _OwnLoader(spec.loader.name, spec.loader.path)
        return spec


class _OwnLoader(importlib.machinery.SourceFileLoader):
    """The loader of such a module."""

    def exec_module(self, module: types.ModuleType) -> None:
        with real_modules():
            super().exec_module(module)


class _AliasLoader(importlib.abc.Loader):
    """The loader of a module of the facade.

    Args:
      found: the module, which may be another one's.
    """

    def __init__(self, found: types.ModuleType) -> None:
        self._found = found

    def create_module(self, spec: Any) -> Any:
        is_of_facade = isinstance(self._found, Namespace | ContribModule)
        return self._found if is_of_facade else Namespace(spec.name, {}, self._found)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


_PUBLIC = (
    "tensorflow._api.",
    "tensorflow.compat.v1.",
    "tensorflow.python.platform.flags",
    "tf_keras.api.",
    "keras.api.",
)
"""The begins of the names of the public modules of TensorFlow and Keras."""


def _with_advice(owner: types.ModuleType, name: str, value: Any) -> Any:
    """Returns a value of a module; a public module becomes a Namespace, which refuses absent names with advice."""
    if not isinstance(value, types.ModuleType) or not value.__name__.startswith(_PUBLIC):
        return value
    found = Namespace(f"{owner.__name__}.{name}", {}, value)
    setattr(owner, name, found)
    return found


class Namespace(types.ModuleType):
    """A module that has its own names, and those of another for the rest; an absent one is refused with what to use.

    Args:
      name: of the module.
      values: its own names.
      other: the other module.
    """

    def __init__(self, name: str, values: dict[str, Any], other: Any) -> None:
        super().__init__(name, other.__doc__)
        self.__path__: list[str] = []
        self.__dict__.update(values)
        self._other = other

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":  # of `import *`
            return [each for each in dir(self) if not each.startswith("_")]
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return _with_advice(self, name, getattr(self._other, name))
        except AttributeError as error:
            if "has no attribute" not in str(error):  # it says more itself
                raise
        raise AttributeError(refusal(f"{self.__name__}.{name}"))

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *dir(self._other)})

    def submodule(self, name: str) -> types.ModuleType | None:
        """Imports a module of the other one, where that is a package; returns None if there is none."""
        whole = f"{self._other.__name__}.{name}"
        with contextlib.suppress(ModuleNotFoundError):
            if importlib.util.find_spec(whole) is not None:
                return importlib.import_module(whole)
        return None


def install() -> Facade:
    """Makes `import tensorflow`, and `import tensorflow.compat.v1`, give the facade; returns it.

    Graphs are built and run in sessions from now on, conditions and loops are made of operations and not of functions,
    and dimensions of shapes have a `value`, as in TensorFlow 1.  A variable is a reference variable, whose value has
    the name `NAME:0`, outside of an Estimator's model.  NumPy and Python get back names that they had then.
    """
    v1.disable_eager_execution()
    v1.disable_resource_variables()
    give_values_by_name()
    lock_additions()
    v1.disable_control_flow_v2()
    v1.disable_v2_tensorshape()
    logging.getLogger(_NAME).propagate = False  # or absl's handler writes each line again
    if legacy.is_installed():
        os.environ.setdefault(_WHICH_KERAS, "1")  # TensorFlow asks for it when Keras is first used
    contrib = make_contrib(_estimator)
    examples = _examples()
    train = Namespace(f"{_NAME}.train", old_names.NAMES_OF_TRAIN, names)
    image = Namespace(f"{_NAME}.image", old_names.NAMES_OF_IMAGE, v1.image)
    modules = {"contrib": contrib, "examples": examples, "keras": _keras(), "layers": _layers(), "nn": _nn()}
    graphs = {"import_graph_def": import_graph_def}
    modules |= {"graph_util": Namespace(f"{_NAME}.graph_util", graphs, v1.graph_util), "image": image, "train": train}
    facade = Facade({**old_names.NAMES, "Session": Session, "Variable": Variable, **graphs, **modules})
    compat = Namespace(f"{_NAME}.compat", {"v1": facade}, tf.compat)
    facade.__dict__["compat"] = compat
    _real.update({name: sys.modules[name] for name in (_NAME, f"{_NAME}.compat", _V1) if name in sys.modules})
    sys.modules.update({_NAME: facade, f"{_NAME}.compat": compat, _V1: facade})
    for module in (contrib, examples):
        _register(module)
    sys.meta_path[:0] = [EstimatorModules(_NAME, _estimator), _ScriptModules(), _OwnModules()]
    MovedModules(_NAME).install()
    _free_flags_of_absl()
    _take_other_sizes()
    lost_names.restore()
    return facade


def _take_other_sizes() -> None:
    """Lets a size in a shape be the text of a number, such as a flag, or a whole float, as TensorFlow 1 does."""
    really = v1.Dimension.__init__

    def take(dimension: Any, value: Any) -> None:
        is_whole = (
            value.isdigit() if isinstance(value, str | bytes) else isinstance(value, float) and value.is_integer()
        )
        really(dimension, int(value) if is_whole else value)

    v1.Dimension.__init__ = take


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


class _Keras(Namespace):
    """The module `tensorflow.keras`: of tf-keras as in TensorFlow 1, or Keras 3.  It is imported when it is used."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return importlib.import_module("tf_keras" if _is_legacy() else "keras").__version__
        return super().__getattr__(name)


def _is_legacy() -> bool:
    return os.environ.get(_WHICH_KERAS) in ("true", "True", "1")  # as TensorFlow reads it


def _keras() -> Any:
    estimator = ContribModule(f"{_NAME}.keras.estimator", {})
    return _Keras(f"{_NAME}.keras", {"estimator": estimator}, v1.keras if _is_legacy() else tf.keras)


def _nn() -> Any:
    cells = ContribModule(f"{_NAME}.nn.rnn_cell", {}, functools.partial(legacy.name, "rnn_cell"))
    return Namespace(f"{_NAME}.nn", {"rnn_cell": cells, **old_names.NAMES_OF_NN}, v1.nn)


def _layers() -> Any:
    return ContribModule(f"{_NAME}.layers", public_names(layers), functools.partial(legacy.name, "layers"))


def _examples() -> Any:
    name = f"{_NAME}.examples.tutorials.mnist"
    modules = {}
    for own, module in (("input_data", mnist_input), ("mnist", mnist_network)):
        modules[own] = types.ModuleType(f"{name}.{own}", module.__doc__)
        modules[own].__dict__.update(public_names(module))
    tutorials = ContribModule(f"{_NAME}.examples.tutorials", {"mnist": ContribModule(name, modules)})
    return ContribModule(f"{_NAME}.examples", {"tutorials": tutorials})


def _register(module: Any) -> None:
    """Makes a module, and the modules in it, importable by their names."""
    sys.modules[module.__name__] = module
    for value in list(module.__dict__.values()):
        if isinstance(value, types.ModuleType) and value.__name__.startswith(module.__name__ + "."):
            _register(value)
