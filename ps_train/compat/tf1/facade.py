"""A facade of TensorFlow 1: a script's own `import tensorflow as tf` finds the names that it was written for.

    facade.install()
    import tensorflow as tf         # tf.placeholder, tf.train.Server of ps_train, tf.contrib, tf.estimator, tf.layers

A name is looked for among the substitutes, then in `tf.compat.v1`, then in today's TensorFlow.  An absent name says in
one line what to use.  A module is imported as it is reached: `import tensorflow.nn.rnn_cell` gives `tf.nn.rnn_cell`.
Modules of ps_train, Keras and tf-slim that are imported later get TensorFlow itself.
"""

from __future__ import annotations

import contextlib
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
from ps_train.compat.tf1 import legacy, lost_names, mnist_input, mnist_network, old_names
from ps_train.compat.tf1.absent_names import refusal, refuse_import
from ps_train.compat.tf1.classic_modules import share_classes
from ps_train.compat.tf1.contrib import ContribModule, make_contrib, public_names
from ps_train.compat.tf1.estimator_modules import EstimatorModules
from ps_train.compat.tf1.lazy_module import LazyModule, own_names
from ps_train.compat.tf1.moved_modules import MovedModules
from ps_train.compat.tf1.variables import Variable, give_lost_methods, import_graph_def
from ps_train.compat.train import train_names as names
from ps_train.compat.train.sessions import Session

_NAME = "tensorflow"
_V1 = "tensorflow.compat.v1"
_FOLDER = os.path.dirname(tf.__file__)
_WHICH_KERAS = "TF_USE_LEGACY_KERAS"


_OWN_OF_A_MODULE = (
    "__all__",
    "__builtins__",
    "__cached__",
    "__doc__",
    "__getattr__",
    "__loader__",
    "__name__",
    "__package__",
)


class Facade(LazyModule):
    """The module `tensorflow` of a script.

    Args:
      substitutes: names that ps_train provides.
    """

    __slots__ = ()

    def __init__(self, substitutes: dict[str, Any]) -> None:
        super().__init__(_NAME, substitutes, tf.__doc__)
        for name, value in vars(tf).items():  # such as __version__ and __git_version__
            if name.startswith("__") and name not in _OWN_OF_A_MODULE:
                setattr(self, name, value)

    def find(self, name: str) -> Any:
        """Returns the value that TensorFlow 1, or else today's TensorFlow, has under a name."""
        if name == "estimator":
            return _estimator()
        if name == "python":  # TensorFlow 1 has it as an attribute too
            return sys.modules[f"{_NAME}.python"]
        return _found(self, name, (v1, tf))

    def listed(self) -> list[str]:
        """Returns their names."""
        return [*dir(v1), *dir(tf), "estimator", "python"]


class _ScriptModules(importlib.abc.MetaPathFinder):
    """A finder of the facade's modules that a script imports, such as `tensorflow.keras.layers`.

    Modules that TensorFlow itself has in a folder, such as `tensorflow.python`, are left to Python.
    """

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if isinstance(sys.modules.get(fullname), LazyModule):  # it is loaded again
            return importlib.machinery.ModuleSpec(fullname, _AliasLoader(sys.modules[fullname]), is_package=True)
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
                refuse_import(fullname, str(error))
        if not isinstance(found, types.ModuleType):
            return None
        return importlib.machinery.ModuleSpec(fullname, _AliasLoader(found), is_package=True)


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
        self._found, self._spec = found, found.__spec__

    def create_module(self, spec: Any) -> Any:
        return self._found if isinstance(self._found, LazyModule) else Namespace(spec.name, {}, self._found)

    def exec_module(self, module: types.ModuleType) -> None:
        if module is self._found:
            module.__spec__ = self._spec  # that of its own name, and not of another one by which it is imported


_PUBLIC = (
    "tensorflow._api.",
    "tensorflow.compat.v1.",
    "tensorflow.python.platform.flags",
    "tf_keras.api.",
    "keras.api.",
)
"""The begins of the names of the public modules of TensorFlow and Keras."""


def _found(owner: types.ModuleType, name: str, homes: Sequence[Any]) -> Any:
    """Returns the value of the first of some modules that has a name.

    A public module becomes a Namespace, which has the names of the other modules' as well, and refuses absent names
    with advice.

    Args:
      owner: the module whose name it is.
      name: the last part of its dotted name.
      homes: the modules.

    Raises:
      AttributeError: none of them has the name.
    """
    values: list[Any] = []
    refused = None
    for home in homes:
        try:
            value = getattr(home, name)
        except AttributeError as error:
            if "has no attribute" not in str(error):  # it says more itself
                refused = refused or error
            continue
        if not values and not _is_public(value):
            return value
        values.append(value)
    if not values:
        raise refused or AttributeError(refusal(f"{owner.__name__}.{name}"))
    found = Namespace(f"{owner.__name__}.{name}", {}, *filter(_is_public, values))
    setattr(owner, name, found)
    return found


def _is_public(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and value.__name__.startswith(_PUBLIC)


class Namespace(LazyModule):
    """A module that has its own names, and those of others for the rest; an absent one is refused with what to use.

    Args:
      name: of the module.
      values: its own names.
      *others: the other modules; the first that has a name decides.
    """

    __slots__ = ("_others",)

    def __init__(self, name: str, values: dict[str, Any], *others: Any) -> None:
        super().__init__(name, values, others[0].__doc__, others[0])
        self._others = others

    def find(self, name: str) -> Any:
        """Returns the value of the first other module that has a name."""
        return _found(self, name, self._others)

    def listed(self) -> list[str]:
        """Returns the names of the other modules."""
        return [name for other in self._others for name in dir(other)]

    def submodule(self, name: str) -> types.ModuleType | None:
        """Imports a module of the others, where they are packages; returns None if there is none."""
        for other in self._others:
            whole = f"{other.__name__}.{name}"
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
    _make_reference_variables()
    give_values_by_name()
    lock_additions()
    v1.disable_control_flow_v2()
    v1.disable_v2_tensorshape()
    logging.getLogger(_NAME).propagate = False  # or absl's handler writes each line again
    if legacy.is_installed():
        os.environ.setdefault(_WHICH_KERAS, "1")  # TensorFlow asks for it when Keras is first used
    contrib = make_contrib(_estimator)
    examples = _examples()
    train = Namespace(f"{_NAME}.train", old_names.NAMES_OF_TRAIN, names, tf.train)
    image = Namespace(f"{_NAME}.image", old_names.NAMES_OF_IMAGE, v1.image, tf.image)
    # TensorFlow 2's own function sets the seed of eager execution, which graphs do not read.
    random = Namespace(f"{_NAME}.random", {"set_seed": v1.set_random_seed}, v1.random, tf.random)
    modules = {"contrib": contrib, "examples": examples, "keras": _keras(), "layers": _layers(), "nn": _nn()}
    graphs = {"import_graph_def": import_graph_def}
    graph_util = Namespace(f"{_NAME}.graph_util", graphs, v1.graph_util, tf.graph_util)
    modules |= {"graph_util": graph_util, "image": image, "random": random, "train": train}
    facade = Facade({**old_names.NAMES, "Session": Session, "Variable": Variable, **graphs, **modules})
    compat = Namespace(f"{_NAME}.compat", {"v1": facade}, tf.compat)
    own_names(facade)["compat"] = compat
    _real.update({name: sys.modules[name] for name in (_NAME, f"{_NAME}.compat", _V1) if name in sys.modules})
    sys.modules.update({_NAME: facade, f"{_NAME}.compat": compat, _V1: facade})
    for module in (contrib, examples):
        _register(module)
    sys.meta_path[:0] = [EstimatorModules(_NAME, _estimator), _ScriptModules(), _OwnModules()]
    MovedModules(_NAME).install()
    share_classes()
    _free_flags_of_absl()
    _take_other_sizes()
    give_lost_methods()
    lost_names.restore()
    return facade


def _make_reference_variables() -> None:
    """Makes variables by reference, as TensorFlow 1 does, without the advice against them: programs rely on it."""
    before = v1.logging.get_verbosity()
    v1.logging.set_verbosity(v1.logging.ERROR)
    try:
        v1.disable_resource_variables()
    finally:
        v1.logging.set_verbosity(before)


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

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return importlib.import_module("tf_keras" if _is_legacy() else "keras").__version__
        return super().__getattr__(name)


def _is_legacy() -> bool:
    return os.environ.get(_WHICH_KERAS) in ("true", "True", "1")  # as TensorFlow reads it


def _keras() -> Any:
    estimator = ContribModule(f"{_NAME}.keras.estimator", {})
    homes = [v1.keras] if _is_legacy() else []
    return _Keras(f"{_NAME}.keras", {"estimator": estimator}, *homes, tf.keras)


def _nn() -> Any:
    cells = ContribModule(f"{_NAME}.nn.rnn_cell", {}, legacy.keras_names("rnn_cell"))
    return Namespace(f"{_NAME}.nn", {"rnn_cell": cells, **old_names.NAMES_OF_NN}, v1.nn, tf.nn)


def _layers() -> Any:
    return ContribModule(f"{_NAME}.layers", {}, legacy.keras_names("layers"))


def _examples() -> Any:
    name = f"{_NAME}.examples.tutorials.mnist"
    modules = {
        own: LazyModule(f"{name}.{own}", public_names(module), module.__doc__)
        for own, module in (("input_data", mnist_input), ("mnist", mnist_network))
    }
    tutorials = ContribModule(f"{_NAME}.examples.tutorials", {"mnist": ContribModule(name, modules)})
    return ContribModule(f"{_NAME}.examples", {"tutorials": tutorials})


def _register(module: Any) -> None:
    """Makes a module, and the modules in it, importable by their names."""
    sys.modules[module.__name__] = module
    for value in list(own_names(module).values()):
        if isinstance(value, types.ModuleType) and value.__name__.startswith(module.__name__ + "."):
            _register(value)
