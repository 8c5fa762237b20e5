"""The modules of TensorFlow 1's Estimators, which libraries import one by one.

    from tensorflow.python.estimator.training import TrainSpec, _TrainingExecutor       # of ps_train
    from tensorflow.python.estimator.canned.head import _Head       # of tensorflow-estimator 2.15.0

A module has the names of ps_train, and those of the package tensorflow-estimator for the rest.  The modules below
`tensorflow_estimator.python.estimator` are the same.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import pathlib
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ps_train.compat.estimator import early_stopping, experimental, export, inputs
from ps_train.compat.estimator import estimator_names as names
from ps_train.compat.estimator.canned import canned_names, missing_for, package_module, private_name, refusal_of
from ps_train.compat.estimator.spec import best_exporter, eval_listener, exporter
from ps_train.compat.estimator.spec.stock_package import package_locations
from ps_train.compat.estimator.train_and_evaluate import check_eval_spec
from ps_train.compat.estimator.training_executor import TrainingExecutor
from ps_train.compat.tf1 import contrib_tpu
from ps_train.compat.tf1.absent_names import refuse_import
from ps_train.compat.tf1.contrib import ContribModule, public_names
from ps_train.compat.tf1.lazy_module import NameSource
from ps_train.compat.tf1.legacy import NotInstalledError
from ps_train.compat.tf1.moved_modules import estimator_export
from ps_train.engine.checkpoint.files import saved_step

_PACKAGE = "tensorflow_estimator"
_BELOW = "python.estimator"
_ABOVE = (_PACKAGE, f"{_PACKAGE}.python")


class TaskType:
    """The types of tasks in `TF_CONFIG`."""

    CHIEF = "chief"
    EVALUATOR = "evaluator"
    MASTER = "master"
    PS = "ps"
    WORKER = "worker"


def _of(module: Any, chosen: Iterable[str]) -> dict[str, Any]:
    """Returns some names of a module."""
    return {name: getattr(module, name) for name in chosen}


def _dnn_logit_fn_builder(
    units: Any,
    hidden_units: Any,
    feature_columns: Any,
    activation_fn: Any,
    dropout: Any,
    input_layer_partitioner: Any,
    batch_norm: bool = False,
) -> Any:
    """Returns the function of logits of `canned.dnn`, which needs `batch_norm` since it is public."""
    build = package_module("canned.dnn").dnn_logit_fn_builder
    return build(units, hidden_units, feature_columns, activation_fn, dropout, input_layer_partitioner, batch_norm)


_OWN: dict[str, Mapping[str, Any]] = {
    "canned.dnn": {"_dnn_logit_fn_builder": _dnn_logit_fn_builder},
    "early_stopping": _of(
        early_stopping, [name for name in experimental.__all__ if name.startswith(("make_e", "stop_"))]
    ),
    "hooks.hooks": _of(early_stopping, ["make_stop_at_checkpoint_step_hook"]),
    "estimator": {
        **_of(names, ["Estimator", "VocabInfo", "WarmStartSettings"]),
        "EstimatorV2": names.Estimator,
        "_load_global_step_from_checkpoint_dir": saved_step,
    },
    "estimator_export": {"estimator_export": estimator_export},
    "estimator_lib": public_names(names),
    "export.export": public_names(export),
    "export.export_lib": public_names(export),
    "export.export_output": _of(export, [name for name in export.__all__ if name.endswith("Output")]),
    "exporter": {
        **_of(names, ["BestExporter", "Exporter", "FinalExporter", "LatestExporter"]),
        "_SavedModelExporter": exporter.SavedModelExporter,
        "_loss_smaller": best_exporter.loss_smaller,
    },
    "extenders": _of(names, ["add_metrics"]),
    "inputs.inputs": public_names(inputs),
    "inputs.numpy_io": _of(inputs, ["numpy_input_fn"]),
    "inputs.pandas_io": _of(inputs, ["pandas_input_fn"]),
    "mode_keys": _of(names, ["ModeKeys"]),
    "model_fn": _of(names, ["EstimatorSpec", "ModeKeys"]),
    "run_config": {**_of(names, ["RunConfig"]), "TaskType": TaskType},
    "tpu.tpu_config": _of(contrib_tpu, ["InputPipelineConfig", "RunConfig", "TPUConfig"]),
    "tpu.tpu_estimator": _of(contrib_tpu, ["TPUEstimator", "TPUEstimatorSpec"]),
    "training": {
        **_of(names, ["EvalSpec", "TrainSpec", "train_and_evaluate"]),
        "_ContinuousEvalListener": eval_listener.EvalListener,
        "_EvalResult": eval_listener.EvalResult,
        "_EvalStatus": eval_listener.EvalStatus,
        "_TrainingExecutor": TrainingExecutor,
        "_assert_eval_spec": check_eval_spec,
    },
}
"""ps_train's names by module."""

_ALONE = (
    "estimator",
    "estimator_export",
    "estimator_lib",
    "run_config",
    "tpu.tpu_config",
    "tpu.tpu_estimator",
    "training",
)
"""Modules that do not load with this TensorFlow, so nothing is taken from the package."""

_REFUSED = {"keras": "model_to_estimator", "keras_lib": "model_to_estimator"}
"""Modules that ps_train does not have, and the name whose absence says why."""


class EstimatorModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """A finder and loader of these modules.

    Args:
      tensorflow: the name of TensorFlow's package.
      estimator: returns the module `tf.estimator`.
    """

    def __init__(self, tensorflow: str, estimator: Callable[[], types.ModuleType]) -> None:
        self._roots = (f"{tensorflow}.{_BELOW}", f"{_PACKAGE}.{_BELOW}")
        self._estimator = estimator

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of one of these modules; None for another.

        Raises:
          ImportError: there is no such module of Estimators.
        """
        if fullname.partition(".")[0] == _PACKAGE and not _is_wanted(fullname):
            return None
        name = self._name_of(fullname)
        if name is None:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if fullname in _ABOVE else None
        if refused := refusal_of(_REFUSED.get(name.partition(".")[0], "")):
            refuse_import(fullname, f"{fullname}: {refused}")
            return None
        if name not in _OWN and not _is_package(name) and not _path_of(name).with_suffix(".py").is_file():
            refused = refusal_of(name.rpartition(".")[2])  # a name of a module that is none
            refuse_import(fullname, refused or missing_for(fullname))
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=_is_package(name))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Returns the module."""
        name = self._name_of(spec.name)
        if name is None:
            return ContribModule(spec.name, {"estimator": self._estimator()} if spec.name == _PACKAGE else {})

        if name == "estimator_lib":
            of_estimator = _of(self._estimator(), ["experimental", "export", "inputs"])
            return ContribModule(spec.name, {**_OWN[name], **of_estimator}, _names_of_library(self._estimator))
        return ContribModule(spec.name, _OWN.get(name, {}), _names_of_package(name))

    def exec_module(self, module: types.ModuleType) -> None:
        """Does nothing: the module has its names."""

    def _name_of(self, fullname: str) -> str | None:
        """Returns the name below the package of Estimators, "canned.head" for example; None for another module."""
        for root in self._roots:
            if fullname == root or fullname.startswith(f"{root}."):
                return fullname[len(root) + 1 :]
        return None


def _names_of_library(estimator: Callable[[], types.ModuleType]) -> NameSource:
    """Returns the canned models of `tf.estimator`, which `estimator_lib` has as well.

    Args:
      estimator: returns the module `tf.estimator`.
    """

    def find(name: str) -> Any:
        if refused := refusal_of(name):
            raise NotInstalledError(refused)
        if name not in canned_names():
            raise AttributeError(name)
        return getattr(estimator(), name)

    return NameSource(find, canned_names)


def _names_of_package(module: str) -> NameSource:
    """Returns the names of a module of the package tensorflow-estimator.

    Args:
      module: "canned.head" for example.
    """

    def is_there() -> bool:
        return not (_is_package(module) or module in _ALONE or missing_for(module))

    def find(name: str) -> Any:
        if not is_there():
            raise AttributeError(name)
        return private_name(module, name)

    return NameSource(find, lambda: dir(package_module(module)) if is_there() else [])


def _is_wanted(fullname: str) -> bool:
    """Returns True for a module of the installed package that a program imports, and not the copy of the package."""
    if fullname == _PACKAGE:
        return bool(package_locations())
    return isinstance(sys.modules.get(fullname.rpartition(".")[0]), ContribModule)


def _path_of(name: str) -> pathlib.Path:
    return pathlib.Path(*package_locations()[:1], *_BELOW.split("."), *name.split("."))


def _is_package(name: str) -> bool:
    return not name or any(own.startswith(f"{name}.") for own in _OWN) or _path_of(name).is_dir()
