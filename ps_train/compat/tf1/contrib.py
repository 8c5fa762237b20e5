"""The modules of `tf.contrib`, with the functions that programs for clusters use.

contrib = make_contrib()
contrib.layers.l2_regularizer(1e-4)
contrib.slim                            # AttributeError: what to use instead
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1 import contrib_layers, contrib_rnn, layers, legacy
from ps_train.compat.tf1.absent_names import refusal
from ps_train.compat.tf1.contrib_sequences import sequence_input_layer
from ps_train.compat.tf1.legacy import NotInstalledError
from ps_train.compat.train.global_step import get_global_step, get_or_create_global_step


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = None,
    dtype: Any = tf.string,
    name: str | None = None,
) -> Any:
    """Returns a table from the values of a 1-D tensor to their positions.

    Args:
      mapping: the values.
      num_oov_buckets: numbers after the positions, for other values by their hash.
      default_value: for other values where there are no such numbers.
      hasher_spec: not used.
      dtype: of the values.
      name: of the table.

    Raises:
      ValueError: mapping is None.
    """
    if mapping is None:
        raise ValueError("mapping=None of index_table_from_tensor: give a 1-D tensor or a list")
    keys = tf.convert_to_tensor(mapping, dtype if dtype == tf.string else None)
    keys = keys if dtype == tf.string else tf.cast(keys, tf.int64)
    positions = tf.range(tf.size(keys, out_type=tf.int64))
    return _table(v1.lookup.KeyValueTensorInitializer(keys, positions), num_oov_buckets, default_value, name)


def index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    *rest: Any,
    **options: Any,
) -> Any:
    """Returns a table from the lines of a file to their numbers.

    Args:
      vocabulary_file: the file, one value a line.
      num_oov_buckets: as of `index_table_from_tensor`.
      vocab_size: the number of lines to use; None: all.
      default_value: as of `index_table_from_tensor`.
      *rest: hasher_spec and key_dtype of contrib; string keys only.
      **options: the same, or `name`.

    Raises:
      ValueError: no file is given.
    """
    if not vocabulary_file:
        raise ValueError(f"vocabulary_file={vocabulary_file!r} of index_table_from_file: give the name of a file")
    lines = v1.lookup.TextFileInitializer(
        vocabulary_file,
        tf.string,
        v1.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        v1.lookup.TextFileIndex.LINE_NUMBER,
        vocab_size=vocab_size,
    )
    return _table(lines, num_oov_buckets, default_value, options.get("name"))


def _table(initializer: Any, num_oov_buckets: int, default_value: int, name: str | None) -> Any:
    if num_oov_buckets:
        return v1.lookup.StaticVocabularyTable(initializer, num_oov_buckets, name=name)
    return v1.lookup.StaticHashTable(initializer, default_value, name=name)


def sloppy_interleave(map_func: Any, cycle_length: int, block_length: int = 1) -> Any:
    """Returns the transformation of `parallel_interleave` whose order may change from run to run."""
    return v1.data.experimental.parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


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

    parts: dict[str, tuple[Mapping[str, Any], Any]] = {
        "layers": ({name: getattr(contrib_layers, name) for name in contrib_layers.__all__}, _layers_of_tensorflow),
        "framework": (_framework(), None),
        "data": (_data(), None),
        "lookup": (
            {
                "index_table_from_file": index_table_from_file,
                "index_table_from_tensor": index_table_from_tensor,
                "HashTable": v1.lookup.StaticHashTable,
                "KeyValueTensorInitializer": v1.lookup.KeyValueTensorInitializer,
                "TextFileInitializer": v1.lookup.TextFileInitializer,
            },
            None,
        ),
        "estimator": ({}, of_estimator),
        "learn": ({}, _learn(estimator)),
        "rnn": (_rnn(), functools.partial(legacy.name, "rnn_cell")),
        "training": ({"HParams": HParams}, None),
        "feature_column": ({"sequence_input_layer": sequence_input_layer}, None),
    }
    modules = {name: ContribModule(f"tensorflow.contrib.{name}", *part) for name, part in parts.items()}
    return ContribModule("tensorflow.contrib", modules)


class HParams:
    """Hyperparameters as attributes, as `tf.contrib.training.HParams`.

    Args:
      **values: the hyperparameters.
    """

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a hyperparameter."""
        setattr(self, name, value)

    def values(self) -> dict[str, Any]:
        """Returns all hyperparameters by name."""
        return dict(self.__dict__)

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a hyperparameter, or `default` if there is none of this name."""
        return self.__dict__.get(name, default)


def _framework() -> dict[str, Any]:
    def get_variables(scope: Any = None) -> list[Any]:
        return list(v1.get_collection(v1.GraphKeys.GLOBAL_VARIABLES, scope))

    return {
        "get_global_step": get_global_step,
        "get_or_create_global_step": get_or_create_global_step,
        "create_global_step": v1.train.create_global_step,
        "get_variables": get_variables,
        "list_variables": tf.train.list_variables,
        "load_variable": tf.train.load_variable,
        "nest": tf.nest,
    }


def _data() -> dict[str, Any]:
    experimental = v1.data.experimental
    return {
        "AUTOTUNE": tf.data.AUTOTUNE,
        "map_and_batch": experimental.map_and_batch,
        "parallel_interleave": experimental.parallel_interleave,
        "shuffle_and_repeat": experimental.shuffle_and_repeat,
        "sloppy_interleave": sloppy_interleave,
    }


def _rnn() -> dict[str, Any]:
    same = ("static_rnn", "static_state_saving_rnn", "static_bidirectional_rnn")
    own = {name: getattr(contrib_rnn, name) for name in contrib_rnn.__all__}
    return {**own, **{name: getattr(v1.nn, name) for name in same}}


def _layers_of_tensorflow(name: str) -> Any:
    """Returns a name that contrib's layers had from TensorFlow itself."""
    own = {"relu": tf.nn.relu, "flatten": layers.flatten, "dropout": _dropout}
    own["variance_scaling_initializer"] = v1.variance_scaling_initializer
    if name not in own:
        raise AttributeError(name)
    return own[name]


def _dropout(inputs: Any, keep_prob: Any = 0.5, noise_shape: Any = None, is_training: Any = True, **_: Any) -> Any:
    return layers.dropout(inputs, 1 - keep_prob, noise_shape, training=is_training)


def _learn(estimator: Callable[[], Any]) -> Callable[[str], Any]:
    """Returns a finder of the names of `tf.contrib.learn` that became tf.estimator's."""
    same = {"ModeKeys", "RunConfig"}

    def find(name: str) -> Any:
        if name not in same:
            raise AttributeError(name)
        return getattr(estimator(), name)

    return find
