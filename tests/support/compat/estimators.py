"""A small linear model, its data, and what numpy makes of it, for tests of Estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from ps_train.compat.estimator.spec.run_config import RunConfig

X = np.random.RandomState(0).randn(64, 2).astype(np.float32)
Y = X @ np.array([1, 2], np.float32)
BATCH = 16
RATE = 0.1


def spec_of(mode: str, features: Any, labels: Any, **more: Any) -> EstimatorSpec:
    """The spec of y = x w with squared loss and gradient descent; `more`: further fields."""
    weights = v1.get_variable("w", [2, 1], initializer=v1.zeros_initializer())
    y = tf.matmul(features["x"], weights)[:, 0]
    fields: dict[str, Any] = {"predictions": {"y": y}}
    if labels is not None:
        fields["loss"] = tf.reduce_mean((y - labels) ** 2)
        fields["eval_metric_ops"] = {"mae": v1.metrics.mean_absolute_error(labels, y)}
    if mode == "train":
        step = v1.train.get_global_step()
        fields["train_op"] = v1.train.GradientDescentOptimizer(RATE).minimize(fields["loss"], step)
    return EstimatorSpec(mode, **(fields | more))


def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    return spec_of(mode, features, labels)


def with_fields(**more: Callable[[], Any]) -> Callable[..., EstimatorSpec]:
    """A model_fn whose spec has further fields, each made by a function in the model's graph."""

    def call(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return spec_of(mode, features, labels, **{name: make() for name, make in more.items()})

    return call


def once() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(BATCH)


def forever() -> tf.data.Dataset:
    return once().repeat()


def features_only() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices({"x": X}).batch(BATCH)


def weights_after(steps: int) -> np.ndarray:
    """The weights after so many steps from zero, by numpy."""
    weights = np.zeros(2, np.float64)
    for i in range(steps):
        rows = np.arange(i * BATCH, (i + 1) * BATCH) % len(X)
        weights -= RATE * 2 / BATCH * X[rows].T @ (X[rows] @ weights - Y[rows])
    return weights


def estimator(directory: Any, function: Callable[..., Any] = model_fn, **config: Any) -> Estimator:
    """An Estimator of a directory that trains as a script does; checkpoints every 10 steps unless told otherwise."""
    if not {"save_checkpoints_steps", "save_checkpoints_secs"} & config.keys():
        config["save_checkpoints_steps"] = 10
    return Estimator(function, str(directory), RunConfig(engine="tensorflow", **config))


def weights_of(trained: Estimator) -> np.ndarray:
    return trained.get_variable_value("w")[:, 0]


def steps_in(directory: Any) -> list[int]:
    """The global steps of the checkpoints that the state file names, oldest first."""
    state = tf.train.get_checkpoint_state(str(directory))
    return [int(path.rpartition("-")[2]) for path in state.all_model_checkpoint_paths]


def events_in(directory: Any) -> dict[str, list[tuple[int, Any]]]:
    """Tag to (step, value) of all summaries in the event files of a directory."""
    found: dict[str, list[tuple[int, Any]]] = {}
    for path in sorted(tf.io.gfile.glob(f"{directory}/events.out.tfevents.*")):
        for event in v1.train.summary_iterator(path):
            for value in event.summary.value:
                kind = value.WhichOneof("value")
                found.setdefault(value.tag, []).append((event.step, getattr(value, kind)))
    return found


class Recorder(v1.train.SessionRunHook):
    """A hook that writes its calls into a list."""

    def __init__(self, calls: list[str], name: str = "") -> None:
        self.calls, self.name = calls, name

    def begin(self) -> None:
        self.calls.append(f"{self.name}begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.calls.append(f"{self.name}after_create_session")

    def before_run(self, run_context: Any) -> None:
        self.calls.append(f"{self.name}before_run")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.calls.append(f"{self.name}after_run")

    def end(self, session: Any) -> None:
        self.calls.append(f"{self.name}end")
