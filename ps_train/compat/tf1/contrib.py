"""The modules of `tf.contrib`, with the functions that programs for clusters use.

contrib = make_contrib()
contrib.layers.l2_regularizer(1e-4)
contrib.distribute                      # AttributeError: what to use instead
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import summaries_of_writers
from ps_train.compat.estimator.canned import refusal_of
from ps_train.compat.tf1 import (
    contrib_crf,
    contrib_data,
    contrib_hparams,
    contrib_learn,
    contrib_learn_datasets,
    contrib_lookup,
    contrib_opt,
    contrib_predictor,
    contrib_refused,
    contrib_rnn,
    contrib_seq2seq,
    contrib_tpu,
    hparam_messages,
    legacy,
    mnist_input,
    old_names,
)
from ps_train.compat.tf1.absent_names import refusal
from ps_train.compat.tf1.contrib_optimize_loss import optimize_loss
from ps_train.compat.tf1.contrib_sequences import embed_sequence, sequence_input_layer
from ps_train.compat.tf1.lazy_module import LazyModule, NameSource, own_names
from ps_train.compat.tf1.legacy import NotInstalledError
from ps_train.compat.train.global_step import get_global_step, get_or_create_global_step

_NAME = "tensorflow.contrib"


def names_of(*modules: Any) -> NameSource:
    """Returns the names of some modules; the first that has a name decides."""

    def find(name: str) -> Any:
        for module in modules[:-1]:
            if hasattr(module, name):
                return getattr(module, name)
        return getattr(modules[-1], name)

    return NameSource(find, lambda: [name for module in modules for name in dir(module)])


class ContribModule(LazyModule):
    """A module of contrib; a name that it lacks is refused with what to use.

    Args:
      name: of the module, `tensorflow.contrib.layers`.
      values: its names.
      source: has further names.
    """

    __slots__ = ("_source",)

    def __init__(self, name: str, values: Mapping[str, Any], source: NameSource | None = None) -> None:
        super().__init__(name, values, f"Functions of {name} that programs for clusters use.")
        self._source = source

    def find(self, name: str) -> Any:
        """Returns the value that the source has under a name; AttributeError says what to use instead."""
        if self._source is not None:
            try:
                return self._source.find(name)
            except NotInstalledError:
                raise
            except AttributeError:
                pass
        raise AttributeError(refusal(f"{self.__name__}.{name}"))

    def listed(self) -> Iterable[str]:
        """Returns the names of the source."""
        return () if self._source is None else self._source.listed()


def make_contrib(estimator: Callable[[], Any]) -> ContribModule:
    """Returns the module `tensorflow.contrib`.

    Args:
      estimator: returns the module `tf.estimator`, whose names `tf.contrib.estimator` has as well.
    """
    hparam = ContribModule(f"{_NAME}.training.hparam", public_names(contrib_hparams))
    messages = ContribModule(f"{_NAME}.training.hparam_pb2", public_names(hparam_messages))
    parts: dict[str, tuple[Mapping[str, Any], NameSource | None]] = {
        "crf": (public_names(contrib_crf), None),
        "data": (public_names(contrib_data), names_of(v1.data.experimental, v1.data)),
        "deprecated": (old_names.SUMMARIES, None),
        "estimator": ({}, _names_of_estimator(estimator)),
        "feature_column": ({"sequence_input_layer": sequence_input_layer}, None),
        "framework": (_framework(), legacy.slim_names()),
        "layers": (_layers(), legacy.slim_names("layers")),
        "cluster_resolver": (contrib_refused.CLUSTER_RESOLVER, names_of(v1.distribute.cluster_resolver)),
        "distribute": (contrib_refused.DISTRIBUTE, None),
        "opt": (public_names(contrib_opt) | contrib_refused.OPT, None),
        "seq2seq": (public_names(contrib_seq2seq) | contrib_refused.SEQ2SEQ, None),
        "summary": (_summary(), None),
        "lookup": (public_names(contrib_lookup) | {"HashTable": v1.lookup.StaticHashTable}, names_of(v1.lookup)),
        "losses": ({}, legacy.slim_names("losses")),
        "metrics": ({"confusion_matrix": v1.confusion_matrix}, legacy.slim_names("metrics")),
        "predictor": (public_names(contrib_predictor), None),
        "rnn": (_rnn(), legacy.keras_names("rnn_cell")),
        "tpu": (public_names(contrib_tpu) | contrib_refused.TPU | {"bfloat16_scope": v1.tpu.bfloat16_scope}, None),
        "training": (public_names(contrib_hparams) | {"hparam": hparam, "hparam_pb2": messages}, None),
        "util": (_util(), None),
    }
    modules = {name: ContribModule(f"{_NAME}.{name}", *part) for name, part in parts.items()}
    modules["learn"] = _learn()
    for name, module in modules.items():  # a program may name the folders of contrib: contrib.layers.python.layers
        own_names(module)["python"] = ContribModule(f"{_NAME}.{name}.python", {name: module})
    own_names(modules["tpu"])["python"] = ContribModule(f"{_NAME}.tpu.python", {"tpu": modules["tpu"]})
    for name in ("bfloat16", "tpu_config", "tpu_context", "tpu_estimator", "tpu_optimizer"):  # files of contrib.tpu
        own_names(modules["tpu"])[name] = modules["tpu"]
    return ContribModule(_NAME, modules, NameSource(_find_slim, lambda: ["slim"] if legacy.has_slim() else []))


def public_names(module: Any) -> dict[str, Any]:
    """Returns the names that a module lists, with their values."""
    return {name: getattr(module, name) for name in module.__all__}


def _names_of_estimator(estimator: Callable[[], Any]) -> NameSource:
    """Returns the names of `tf.estimator`, and of its `experimental`."""

    def find(name: str) -> Any:
        if refused := refusal_of(name):
            raise NotInstalledError(refused)
        module = estimator()
        return getattr(module, name) if hasattr(module, name) else getattr(module.experimental, name)

    return NameSource(find, lambda: [*dir(estimator()), *dir(estimator().experimental)])


def get_variables(
    scope: Any = None, suffix: str | None = None, collection: str = v1.GraphKeys.GLOBAL_VARIABLES
) -> list[Any]:
    """Returns the variables of a collection below a scope, whose names have an ending."""
    found = v1.get_collection(collection, getattr(scope, "name", scope))
    return [each for each in found if suffix is None or each.op.name.endswith(suffix)]


def _framework() -> dict[str, Any]:
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
    names = ("LSTMBlockFusedCell", "stack_bidirectional_dynamic_rnn", "stack_bidirectional_rnn")
    own = {name: getattr(contrib_rnn, name) for name in names}
    return own | cells | {name: getattr(v1.nn, name) for name in same}


def constant_value(tensor: Any, partial: bool = False) -> Any:
    """Returns the value of a constant tensor; None if it is not known before the run."""
    return tf.get_static_value(tensor, partial)


def _summary() -> dict[str, Any]:
    module = summaries_of_writers()
    same = (
        "always_record_summaries audio create_file_writer create_summary_file_writer flush generic histogram image "
        "import_event initialize never_record_summaries record_summaries_every_n_global_steps scalar "
        "should_record_summaries summary_writer_initializer_op"
    )
    others = {"all_summary_ops": "all_v2_summary_ops", "eval": "eval_dir", "event": "import_event", "graph": "graph_v1"}
    return {name: getattr(module, others.get(name, name)) for name in [*same.split(), *others]}


def _util() -> dict[str, Any]:
    return {
        "constant_value": constant_value,
        "make_ndarray": v1.make_ndarray,
        "make_tensor_proto": v1.make_tensor_proto,
    }


def _layers() -> dict[str, Any]:
    return {
        "embed_sequence": embed_sequence,
        "optimize_loss": optimize_loss,
        "relu": tf.nn.relu,
        "safe_embedding_lookup_sparse": v1.nn.safe_embedding_lookup_sparse,
    }


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
        "datasets": module(
            "datasets",
            base=module("datasets.base", **public_names(contrib_learn_datasets)),
            mnist=module("datasets.mnist", **public_names(mnist_input)),
            DATASETS=contrib_learn_datasets.DATASETS,
            load_dataset=contrib_learn_datasets.load_dataset,
        ),
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


def _find_slim(name: str) -> ContribModule:
    """Returns the module `slim`, which comes with tf-slim; NotInstalledError says what to install."""
    if name != "slim":
        raise AttributeError(name)
    legacy.slim()
    return _slim()


@functools.cache
def _slim() -> ContribModule:
    """Returns `tf.contrib.slim`, whose networks are imported as they are reached."""
    nets = ContribModule(f"{_NAME}.slim.nets", {}, legacy.slim_names("nets"))
    module = ContribModule(f"{_NAME}.slim", {"nets": nets}, legacy.slim_names())
    own_names(module)["python"] = ContribModule(f"{_NAME}.slim.python", {"slim": module})
    return module
