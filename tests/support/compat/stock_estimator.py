"""The stock Estimator, tensorflow-estimator 2.15.0, on a TensorFlow that no longer has all it imports; and a model.

It must be alone in its process, since it changes TensorFlow's modules:

    python -m tests.support.compat.stock_estimator DIRECTORY STEPS  # trains the model; needs the package on the path

`train_with_stock` does this from a test.  The model is for both: `model_fn_of(EstimatorSpec)` and `input_fn`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

PACKAGE = "tensorflow_estimator"
PATH_VARIABLE = "STOCK_ESTIMATOR_PATH"
"""Names the directory in which the package is installed, if that is not on Python's path."""

ROOT = pathlib.Path(__file__).parents[3]
SEED, SAVE_STEPS = 5, 10


def where() -> str:
    """The directory of the package, or "" if it is not there."""
    given = os.environ.get(PATH_VARIABLE, "")
    if given:
        return given if (pathlib.Path(given) / PACKAGE).is_dir() else ""
    found = importlib.util.find_spec(PACKAGE)
    return str(pathlib.Path(found.origin).parents[1]) if found is not None and found.origin else ""


def train_with_stock(directory: pathlib.Path, max_steps: int) -> None:
    """Trains the model in a process of its own, from the newest checkpoint of the directory on."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), where()]), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", "tests.support.compat.stock_estimator", str(directory), str(max_steps)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr


def input_fn() -> tf.data.Dataset:
    rng = np.random.RandomState(0)
    features = {"x": rng.randn(96, 3).astype(np.float32), "id": rng.randint(0, 20, [96, 1])}
    labels = (features["x"].sum(1, keepdims=True) > 0).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((features, labels)).batch(16).repeat()


def model_fn_of(spec: Any) -> Callable[..., Any]:
    """A model with a table, two layers, a moving average, and two optimizers with slots and a schedule."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        step = v1.train.get_global_step()
        with v1.variable_scope("wide"):
            table = v1.get_variable("table", [20, 4], initializer=v1.random_normal_initializer(stddev=0.1))
            wide = tf.reduce_sum(tf.nn.embedding_lookup(table, features["id"]), 1)
        with v1.variable_scope("deep"):
            kernel = v1.get_variable("kernel", [3, 4])
            hidden = tf.nn.relu(tf.matmul(features["x"], kernel) + wide)
            mean = v1.get_variable("mean", [4], trainable=False, initializer=v1.zeros_initializer())
            out = v1.get_variable("out", [4, 1])
        loss = v1.losses.sigmoid_cross_entropy(labels, tf.matmul(hidden - mean, out))
        rate = v1.train.exponential_decay(0.1, step, 5, 0.9)
        average = mean.assign(0.9 * mean + 0.1 * tf.reduce_mean(hidden, 0), read_value=False)
        with tf.control_dependencies([average]):
            adam = v1.train.AdamOptimizer(rate).minimize(
                loss, step, v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, "deep")
            )
        ftrl = v1.train.FtrlOptimizer(rate).minimize(
            loss, var_list=v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, "wide")
        )
        return spec(mode, loss=loss, train_op=tf.group(adam, ftrl), predictions={"out": hidden})

    return model_fn


def import_stock() -> Any:
    """Imports the package after TensorFlow got empty modules for what only TPUs and distribution strategies need."""
    _add_module(
        "tensorflow.python.distribute.estimator_training",
        should_run_distribute_coordinator=lambda config: False,
        init_run_config=lambda config, tf_config: setattr(config, "_distribute_coordinator_mode", None),
    )
    nothing = type("Nothing", (), {})
    optimizers = ("Adagrad", "Adam", "Ftrl", "Momentum", "ProximalAdagrad", "RMSProp", "StochasticGradientDescent")
    parameters = {f"{name}Parameters": nothing for name in optimizers}
    _add_module("tensorflow.python.tpu.session_support")
    _add_module("tensorflow.python.tpu.tpu_embedding_gradient")
    _add_module("tensorflow.python.tpu.tpu_embedding", **parameters)
    for name, value in parameters.items():
        setattr(v1.tpu.experimental, name, value)
    export = importlib.import_module("tensorflow.python.util.tf_export")
    export.ESTIMATOR_API_NAME = "estimator"
    export.API_ATTRS["estimator"] = export._Attributes("_estimator_api_names", "_estimator_api_constants")
    export.API_ATTRS_V1["estimator"] = export._Attributes("_estimator_api_names_v1", "_estimator_api_constants_v1")
    return importlib.import_module(f"{PACKAGE}.python.estimator.estimator_lib")


def _add_module(name: str, **attributes: Any) -> None:
    module = types.ModuleType(name)
    module.__dict__.update(attributes)
    parent, _, child = name.rpartition(".")
    sys.modules[name] = module
    setattr(importlib.import_module(parent), child, module)


def main(directory: str, max_steps: str) -> None:
    stock = import_stock()
    config = stock.RunConfig(model_dir=directory, tf_random_seed=SEED, save_checkpoints_steps=SAVE_STEPS)
    stock.Estimator(model_fn_of(stock.EstimatorSpec), config=config).train(input_fn, max_steps=int(max_steps))


if __name__ == "__main__":
    main(*sys.argv[1:])
