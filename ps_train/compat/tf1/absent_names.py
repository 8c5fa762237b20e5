"""Names of TensorFlow 1 that are absent, and what to use instead.

refusal("tensorflow.contrib.slim")      # "tf.contrib.slim is not in ...: use tf.layers"
refuse_import("tensorflow.contrib.slim")        # of a finder of modules: raises the error of Python, with this text
"""

from __future__ import annotations

import importlib.util
import sys

from ps_train.base.extras import install

_INSTALL = f", or {install('compat')}"
_INSTEAD = {
    "contrib.slim": f"{install('compat')}, or write the layers with tf.layers",
    "contrib.rnn": "use the cells of tf.nn.rnn_cell",
    "contrib.rnn.python": "use tf.layers.dense in place of _Linear, and the cells of tf.nn.rnn_cell",
    "contrib.tpu": "TPUs are not supported; use tf.estimator.Estimator, or TPUEstimator(use_tpu=False)",
    "contrib.distribute": "leave the strategy out; the tasks of TF_CONFIG train together without it",
    "contrib.cluster_resolver": "use TF_CONFIG",
    "contrib.training": "write the function in the script; HParams and parse_values alone are here",
    "contrib.learn": "use tf.estimator",
    "contrib.learn.datasets": "load the data with numpy, or with tf.data",
    "contrib.opt": "use an optimizer of tf.train",
    "contrib.eager": "eager execution is not a part of graph programs; remove it",
    "contrib.estimator": f"use tf.estimator; for heads and canned estimators {install('estimator')}",
    "contrib.feature_column": "use tf.feature_column",
    "contrib.layers": f"use tf.layers, tf.nn or tf.feature_column{_INSTALL}",
    **{
        f"contrib.layers.{old}": f"use tf.feature_column.{new}"
        for old, new in (
            ("bucketized_column", "bucketized_column"),
            ("create_feature_spec_for_parsing", "make_parse_example_spec"),
            ("crossed_column", "crossed_column"),
            ("embedding_column", "embedding_column"),
            ("input_from_feature_columns", "input_layer"),
            ("one_hot_column", "indicator_column"),
            ("real_valued_column", "numeric_column"),
            ("scattered_embedding_column", "embedding_column"),
            ("shared_embedding_columns", "shared_embeddings"),
            ("sparse_column_with_hash_bucket", "categorical_column_with_hash_bucket"),
            ("sparse_column_with_integerized_feature", "categorical_column_with_identity"),
            ("sparse_column_with_keys", "categorical_column_with_vocabulary_list"),
            ("sparse_column_with_vocabulary_file", "categorical_column_with_vocabulary_file"),
            ("weighted_sparse_column", "weighted_categorical_column"),
            ("weighted_sum_from_feature_columns", "linear_model"),
        )
    },
    "contrib.boosted_trees": "train trees with a library of trees, or write a model_fn",
    "contrib.tensor_forest": "train trees with a library of trees, or write a model_fn",
    "contrib.factorization": "use scikit-learn, or write a model_fn",
    "contrib.image": "use tf.image",
    "contrib.linalg": "use tf.linalg",
    "contrib.linear_optimizer": "use tf.train.FtrlOptimizer",
    "contrib.session_bundle": "use tf.saved_model",
    "contrib.tensorboard": f"{install('tensorboard')}, and use tensorboard.plugins",
    "contrib.distributions": "use tf.distributions",
    "contrib.keras": "use tf.keras",
    "contrib.lookup": "use tf.lookup",
    "contrib.staging": "use tf.data, which reads ahead",
    "contrib.summary": "use tf.summary",
    "contrib.seq2seq": "write it in the script, with tf.nn.dynamic_rnn and the cells of tf.nn.rnn_cell",
    "contrib.losses": f"use tf.losses{_INSTALL}",
    "contrib.metrics": f"use tf.metrics{_INSTALL}",
    "contrib.framework": f"use tf.train or tf.get_variable{_INSTALL}",
    "keras.utils.multi_gpu_model": "leave it out; the tasks of TF_CONFIG train together, and each uses its own GPUs",
    "keras.estimator": "build the layers in a model_fn, or describe the model as ps_train.Model",
    "estimator.tpu": "TPUs are not supported; use tf.estimator.Estimator, or TPUEstimator(use_tpu=False)",
    "examples": "copy the module beside the script",
    "models": "copy the module beside the script",
    "nn.seq2seq": "write it in the script, with the cells of tf.nn.rnn_cell and tf.nn.static_rnn",
    "nn.rnn_cell": "use LSTMCell or GRUCell of tf.nn.rnn_cell",
    "python.estimator": "use tf.estimator",
    "layers": "use tf.nn and tf.get_variable",
    "python.ops.kv_variable_ops": "a fork of TensorFlow has it; use tf.get_variable, or a table of ps_train.embeddings",
    "python.ops.work_queue": "a fork of TensorFlow has it; divide the files with tf.data.Dataset.shard",
    "python.data.experimental.ops": "a fork of TensorFlow may have it; read Parquet files with ps_train.data",
    "python": "it is a private module; use the public name in tf",
}
"""Advice by the begin of a name; the longest that fits counts."""

_CONTRIB = "write it in the script, with tf.nn, tf.layers and tf.get_variable"
_USUAL = "look for its successor in the documentation of tf.compat.v1"


def refusal(name: str) -> str:
    """Returns one line that says that a name is absent and what to use.

    Args:
      name: with its module, `tensorflow.contrib.slim.conv2d`.
    """
    short = name.removeprefix("tensorflow.").removeprefix("tensorflow_estimator.")
    parts = short.split(".")
    for length in range(len(parts), 0, -1):
        advice = _INSTEAD.get(".".join(parts[:length]))
        if advice:
            break
    else:
        advice = _CONTRIB if parts[0] == "contrib" else _USUAL
    if all(importlib.util.find_spec(each) for each in ("tf_slim", "tf_keras")):
        advice = advice.removesuffix(_INSTALL)  # they are there, and do not have the name
    return f"tf.{short} is not in this TensorFlow, and ps_train has no substitute: {advice}."


_IMPORTLIB = ("importlib._bootstrap", "_frozen_importlib")


def refuse_import(fullname: str, text: str = "") -> None:
    """Raises the error that Python raises for a module that is absent, with a text that says more.

    It is called by `find_spec` of a finder, and returns if a program only asks, as with `importlib.util.find_spec`.

    Args:
      fullname: of the module.
      text: of the error; "" for the refusal of the name.

    Raises:
      ModuleNotFoundError: of `import fullname`.
      ImportError: of `from PACKAGE import NAME`.
    """
    package, _, name = fullname.rpartition(".")
    frame, is_from = sys._getframe(1), False
    while frame.f_back is not None and frame.f_globals.get("__name__") not in _IMPORTLIB:
        frame = frame.f_back  # of finders
    while frame.f_back is not None and frame.f_globals.get("__name__") in _IMPORTLIB:
        is_from = is_from or frame.f_code.co_name == "_handle_fromlist"
        frame = frame.f_back
    if frame.f_globals.get("__name__") == "importlib.util":
        return
    if not text and hasattr(sys.modules.get(package), name):
        text = f"{fullname} is not a module: write `from {package} import {name}`."
    if is_from:
        raise ImportError(text or refusal(fullname), name=package)
    raise ModuleNotFoundError(text or refusal(fullname), name=fullname)
