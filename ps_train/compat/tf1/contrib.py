"""The modules of `tf.contrib`, with the functions that programs for clusters use.

contrib = make_contrib()
contrib.layers.l2_regularizer(1e-4)
contrib.distribute                      # AttributeError: what to use instead
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1 import (
    contrib_crf,
    contrib_data,
    contrib_hparams,
    contrib_layers,
    contrib_learn,
    contrib_lookup,
    contrib_metrics,
    contrib_predictor,
    contrib_rnn,
    contrib_tpu,
    legacy,
    mnist_input,
    old_names,
)
from ps_train.compat.tf1.absent_names import refusal
from ps_train.compat.tf1.contrib_sequences import sequence_input_layer
from ps_train.compat.tf1.legacy import NotInstalledError
from ps_train.compat.train.global_step import get_global_step, get_or_create_global_step

_NAME = "tensorflow.contrib"


class ContribModule(types.ModuleType):
    """A module of contrib; a name that it lacks is refused with what to use.

    Args:
      name: of the module, `tensorflow.contrib.layers`.
      values: its names.
      load: finds further names; raises AttributeError for others, NotInstalledError if it says what to install.
    """

    def __init__(self, name: str, values: Mapping[str, Any], load: Callable[[str], Any] | None = None) -> None:
        super().__init__(name, f"Functions of {name} that programs for clusters use.")
        self.__path__: list[str] = []
        self.__dict__.update(values)
        self._load = load

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._load is not None:
            try:
                return self._load(name)
            except NotInstalledError:
                raise
            except AttributeError:
                pass
        raise AttributeError(refusal(f"{self.__name__}.{name}"))


def make_contrib(estimator: Callable[[], Any]) -> ContribModule:
    """Returns the module `tensorflow.contrib`.

    Args:
      estimator: returns the module `tf.estimator`, whose names `tf.contrib.estimator` has as well.
    """

    def of_estimator(name: str) -> Any:
        module = estimator()
        return getattr(module, name) if hasattr(module, name) else getattr(module.experimental, name)

    hparam = ContribModule(f"{_NAME}.training.hparam", public_names(contrib_hparams))
    parts: dict[str, tuple[Mapping[str, Any], Callable[[str], Any] | None]] = {
        "crf": (public_names(contrib_crf), None),
        "data": (public_names(contrib_data), _first_of(v1.data.experimental, v1.data)),
        "deprecated": (old_names.SUMMARIES, None),
        "estimator": ({}, of_estimator),
        "feature_column": ({"sequence_input_layer": sequence_input_layer}, None),
        "framework": (_framework(), legacy.slim),
        "layers": (
            public_names(contrib_layers) | _layers_of_tensorflow(),
            functools.partial(legacy.slim, part="layers"),
        ),
        "lookup": (public_names(contrib_lookup) | {"HashTable": v1.lookup.StaticHashTable}, _first_of(v1.lookup)),
        "losses": ({}, functools.partial(legacy.slim, part="losses")),
        "metrics": (contrib_metrics.METRICS, functools.partial(legacy.slim, part="metrics")),
        "predictor": (public_names(contrib_predictor), None),
        "rnn": (_rnn(), functools.partial(legacy.name, "rnn_cell")),
        "tpu": (public_names(contrib_tpu), None),
        "training": (public_names(contrib_hparams) | {"hparam": hparam}, None),
        "util": (_util(), None),
    }
    modules = {name: ContribModule(f"{_NAME}.{name}", *part) for name, part in parts.items()}
    modules["learn"] = _learn()
    for name, module in modules.items():  # a program may name the folders of contrib: contrib.layers.python.layers
        vars(module)["python"] = ContribModule(f"{_NAME}.{name}.python", {name: module})
    return ContribModule(_NAME, modules, _slim_itself)


def public_names(module: Any) -> dict[str, Any]:
    """Returns the names that a module lists, with their values."""
    return {name: getattr(module, name) for name in module.__all__}


def _first_of(*modules: Any) -> Callable[[str], Any]:
    """Returns a finder of names of the first of some modules that has them."""

    def find(name: str) -> Any:
        for module in modules[:-1]:
            if hasattr(module, name):
                return getattr(module, name)
        return getattr(modules[-1], name)

    return find


def _framework() -> dict[str, Any]:
    def get_variables(
        scope: Any = None, suffix: str | None = None, collection: str = v1.GraphKeys.GLOBAL_VARIABLES
    ) -> list[Any]:
        found = v1.get_collection(collection, getattr(scope, "name", scope))
        return [each for each in found if suffix is None or each.op.name.endswith(suffix)]

    return {
        "get_global_step": get_global_step,
        "get_or_create_global_step": get_or_create_global_step,
        "create_global_step": v1.train.create_global_step,
        "argsort": tf.argsort,
        "get_variables": get_variables,
        "init_from_checkpoint": v1.train.init_from_checkpoint,
        "is_tensor": tf.is_tensor,
        "list_variables": tf.train.list_variables,
        "load_variable": tf.train.load_variable,
        "nest": tf.nest,
        "sort": tf.sort,
    }


def _rnn() -> dict[str, Any]:
    same = ("static_rnn", "static_state_saving_rnn", "static_bidirectional_rnn")
    cells = {"GRUBlockCellV2": contrib_rnn.gru_block_cell, "LSTMBlockCell": contrib_rnn.lstm_block_cell}
    own = {name: getattr(contrib_rnn, name) for name in ("stack_bidirectional_dynamic_rnn", "stack_bidirectional_rnn")}
    return own | cells | {name: getattr(v1.nn, name) for name in same}


def _util() -> dict[str, Any]:
    def constant_value(tensor: Any, partial: bool = False) -> Any:
        return tf.get_static_value(tensor, partial)

    return {
        "constant_value": constant_value,
        "make_ndarray": v1.make_ndarray,
        "make_tensor_proto": v1.make_tensor_proto,
    }


def _layers_of_tensorflow() -> dict[str, Any]:
    return {"relu": tf.nn.relu, "safe_embedding_lookup_sparse": v1.nn.safe_embedding_lookup_sparse}


def _learn() -> ContribModule:
    """Returns `tf.contrib.learn`."""
    name = f"{_NAME}.learn"

    def module(path: str, **values: Any) -> ContribModule:
        return ContribModule(f"{name}.{path}", values)

    runs = {
        "Experiment": contrib_learn.Experiment,
        "ModeKeys": contrib_learn.ModeKeys,
        "RunConfig": contrib_learn.run_config,
    }
    export = module("utils.saved_model_export_utils", make_export_strategy=contrib_learn.make_export_strategy)
    modules = {
        "datasets": module("datasets", mnist=module("datasets.mnist", **public_names(mnist_input))),
        "estimators": module(
            "estimators",
            model_fn=module("estimators.model_fn", ModeKeys=contrib_learn.ModeKeys),
            run_config=module("estimators.run_config", RunConfig=contrib_learn.run_config),
            **runs,
        ),
        "experiment": module("experiment", Experiment=contrib_learn.Experiment),
        "learn_runner": module("learn_runner", run=contrib_learn.run),
        "utils": module(
            "utils", saved_model_export_utils=export, make_export_strategy=contrib_learn.make_export_strategy
        ),
    }
    return ContribModule(name, runs | modules)


def _slim_itself(name: str) -> Any:
    if name != "slim":
        raise AttributeError(name)
    legacy.slim()  # or it says what to install
    return _slim()


@functools.cache
def _slim() -> ContribModule:
    """Returns `tf.contrib.slim`, whose networks are imported as they are reached."""
    nets = ContribModule(f"{_NAME}.slim.nets", {}, functools.partial(legacy.slim, part="nets"))
    module = ContribModule(f"{_NAME}.slim", {"nets": nets}, legacy.slim)
    vars(module)["python"] = ContribModule(f"{_NAME}.slim.python", {"slim": module})
    return module
