"""Names of Keras 2 that programs of `tf.distribute` use and Keras 3 lacks.

    install(replaced)
    keras.optimizers.legacy.Adam(lr=0.1, decay=1e-4)

Each has Keras 3's own under its new name, or says in one line what to write.  They are there only for a program that
`python -m ps_train run` runs.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ps_train.compat.distribute import legacy_saving, legacy_scopes, legacy_shapes
from ps_train.compat.distribute.replaced import Replaced
from ps_train.compat.tf1.refused_use import refused

_READING = ("workers", "use_multiprocessing", "max_queue_size")
"""Arguments of `fit`, `evaluate` and `predict` that Keras 3 has in a PyDataset."""

_OPTIMIZERS = ("Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Nadam", "Optimizer", "RMSprop", "SGD")

_INSTEAD = {
    "tf.keras.backend": "leave it out, since fit, evaluate and predict say themselves whether a layer trains",
    "tf.keras.experimental.SidecarEvaluator": "give fit validation_data, or call model.evaluate in a callback",
    "tf.keras.experimental.export_saved_model": "write model.export(path)",
    "tf.keras.experimental.load_from_saved_model": "write keras.models.load_model(path)",
    "tf.keras.experimental.LinearModel": "write it as a keras.Model with a Dense layer",
    "tf.keras.experimental.WideDeepModel": "write it as a keras.Model that adds both parts",
    "tf.keras.experimental": "look for its successor in the documentation of Keras 3",
    "tf.keras.estimator": "train the model by its fit; tf.estimator is there under python -m ps_train run --compat",
    "tf.keras.layers.DenseFeatures": "use keras.utils.FeatureSpace, or preprocessing layers",
    "tf.keras.layers.experimental.SyncBatchNormalization": "use keras.layers.BatchNormalization",
    "tf.keras.layers.experimental": "use keras.layers",
    "tf.keras.optimizers": "use keras.optimizers",
    "tf.keras.utils.SidecarEvaluator": "give fit validation_data, or call model.evaluate in a callback",
    "tf.keras.utils.multi_gpu_model": "make the model in the scope of a strategy",
    "tf.keras.utils.experimental": "use keras.utils",
    "tf.keras.mixed_precision.experimental": "use keras.mixed_precision",
    "tf.keras.callbacks.experimental": "use keras.callbacks",
    "tf.keras.Model.predict_classes": "write numpy.argmax(model.predict(x), axis=-1)",
    "tf.keras.Model.predict_proba": "write model.predict(x)",
}
"""Advice by the beginning of a name; the longest match wins."""


def instead(name: str) -> str:
    """Returns what to write in the place of a name of Keras 2, `tf.keras.experimental.LinearModel`."""
    parts = name.split(".")
    begins = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((_INSTEAD[begin] for begin in begins if begin in _INSTEAD), "use its successor in Keras 3")


class DatasetCreator:
    """A function that makes a dataset, as `fit` of Keras 2 took it under a ParameterServerStrategy.

    The function is called once, for the whole job: ps_train divides the batches of its dataset among the workers.

    Args:
      dataset_fn: gets a `tf.distribute.InputContext` and returns a `tf.data.Dataset` that is batched.
      input_options: ignored.
    """

    def __init__(self, dataset_fn: Any, input_options: Any = None) -> None:
        self.dataset_fn, self.input_options = dataset_fn, input_options

    def __call__(self, context: Any = None) -> Any:
        """Returns the dataset."""
        return self.dataset_fn(tf.distribute.InputContext() if context is None else context)


def install(replaced: Replaced) -> None:
    """Gives Keras 3 the names.

    Args:
      replaced: gets the replaced attributes.
    """
    _modules(replaced)
    _optimizers(replaced)
    _models(replaced)
    _arguments(replaced)
    legacy_saving.install(replaced)
    legacy_scopes.install(replaced)
    legacy_shapes.install(replaced)


def _modules(replaced: Replaced) -> None:
    old = {
        "callbacks.experimental": {"BackupAndRestore": keras.callbacks.BackupAndRestore},
        "estimator": _refused("model_to_estimator", "tf.keras.estimator"),
        "experimental": {
            "CosineDecay": keras.optimizers.schedules.CosineDecay,
            "CosineDecayRestarts": keras.optimizers.schedules.CosineDecayRestarts,
            **_refused(
                "SidecarEvaluator export_saved_model load_from_saved_model LinearModel WideDeepModel",
                "tf.keras.experimental",
            ),
        },
        "layers.experimental": _refused("SyncBatchNormalization", "tf.keras.layers.experimental"),
        "layers.experimental.preprocessing": _preprocessing(),
        "mixed_precision.experimental": {
            "LossScaleOptimizer": keras.mixed_precision.LossScaleOptimizer,
            "Policy": keras.mixed_precision.DTypePolicy,
            "global_policy": keras.mixed_precision.global_policy,
            "set_policy": keras.mixed_precision.set_global_policy,
        },
        "optimizers.experimental": {name: getattr(keras.optimizers, name) for name in _OPTIMIZERS},
        "optimizers.legacy": {name: getattr(keras.optimizers, name) for name in _OPTIMIZERS},
        "utils.experimental": {"DatasetCreator": DatasetCreator},
    }
    for path, values in old.items():
        replaced.keras_module(path, values, instead)
    reduction = type("Reduction", (), {name: name.lower() for name in ("NONE", "SUM", "SUM_OVER_BATCH_SIZE")})
    reduction.AUTO = reduction.SUM_OVER_BATCH_SIZE  # type: ignore[attr-defined]  # outside of a strategy it was the same
    replaced.keras_name("losses.Reduction", reduction)
    # Keras 3's own takes variables of TensorFlow alone, and optimizers have Keras's.
    replaced.keras_name("backend.set_value", lambda x, value: x.assign(value))
    replaced.keras_name("backend.get_value", lambda x: x.numpy() if hasattr(x, "numpy") else x)
    for module, names in (
        ("backend", "set_learning_phase learning_phase get_session set_session"),
        ("layers", "DenseFeatures"),
        ("utils", "SidecarEvaluator multi_gpu_model"),
    ):
        for name, value in _refused(names, f"tf.keras.{module}").items():
            replaced.keras_name(f"{module}.{name}", value)


def _refused(names: str, module: str) -> Mapping[str, Any]:
    return {
        name: value
        for each in names.split()
        for name, value in refused(each, module, instead(f"{module}.{each}"), __name__).items()
    }


def _preprocessing() -> dict[str, Any]:
    """Returns the layers that were in `layers.experimental.preprocessing`, and have left it."""
    names = "CategoryEncoding CenterCrop Discretization Hashing IntegerLookup Normalization Rescaling Resizing"
    names += " StringLookup TextVectorization PreprocessingLayer"
    found = {name: getattr(keras.layers, name) for name in names.split() if hasattr(keras.layers, name)}
    return found | {name: getattr(keras.layers, name) for name in dir(keras.layers) if name.startswith("Random")}


def _optimizers(replaced: Replaced) -> None:
    base = keras.optimizers.Optimizer
    own_init: Any = base.__init__

    @functools.wraps(own_init)
    def init(self: Any, learning_rate: Any = 0.001, *args: Any, **options: Any) -> None:
        learning_rate = options.pop("lr", learning_rate)
        decay = options.pop("decay", None)
        if decay and isinstance(learning_rate, int | float):
            learning_rate = keras.optimizers.schedules.InverseTimeDecay(learning_rate, 1, decay)
        own_init(self, learning_rate, *args, **options)

    def get_weights(self: Any) -> list[np.ndarray]:
        return [variable.numpy() for variable in self.variables]

    def set_weights(self: Any, weights: Any) -> None:
        for variable, value in zip(self.variables, weights, strict=True):
            variable.assign(value)

    lr = property(lambda self: self.learning_rate, lambda self, value: setattr(self, "learning_rate", value))
    for name, value in {"__init__": init, "lr": lr, "get_weights": get_weights, "set_weights": set_weights}.items():
        replaced.attribute(base, name, value)


def _models(replaced: Replaced) -> None:
    def generator(method: str) -> Any:
        def call(self: Any, generator: Any, *args: Any, **options: Any) -> Any:
            if args:  # after the generator comes the number of steps
                options["steps_per_epoch" if method == "fit" else "steps"] = args[0]
            return getattr(self, method)(generator, *args[1:], **options)

        call.__name__ = call.__qualname__ = f"{method}_generator"
        return call

    for method in ("fit", "evaluate", "predict"):
        replaced.attribute(keras.Model, f"{method}_generator", generator(method))
    for name, value in _refused("predict_classes predict_proba", "tf.keras.Model").items():
        replaced.attribute(keras.Model, name, value)
    replaced.attribute(keras.metrics.Metric, "reset_states", lambda self: self.reset_state())
    replaced.attribute(keras.layers.RNN, "reset_states", lambda self, *args: self.reset_state())
    for strategy in (tf.distribute.Strategy, tf.compat.v1.distribute.Strategy):
        replaced.attribute(strategy, "experimental_run_v2", _run)


def _run(self: Any, fn: Any, args: Any = (), kwargs: Any = None) -> Any:
    return self.run(fn, args=args, kwargs=kwargs)


def _arguments(replaced: Replaced) -> None:
    """Lets methods of a model take arguments that they had, and a DatasetCreator."""

    def taking(method: str) -> Any:
        own: Any = getattr(keras.Model, method)

        @functools.wraps(own)
        def call(self: Any, x: Any = None, *args: Any, **options: Any) -> Any:
            for name in _READING:
                options.pop(name, None)
            if isinstance(options.get("validation_data"), DatasetCreator):
                options["validation_data"] = options["validation_data"]()
            return own(self, x() if isinstance(x, DatasetCreator) else x, *args, **options)

        return call

    for method in ("fit", "evaluate", "predict"):
        replaced.attribute(keras.Model, method, taking(method))
