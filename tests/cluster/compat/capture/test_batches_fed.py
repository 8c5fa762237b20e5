"""A hook of the program starts the iterator of its input_fn with fed arrays: the usual way around 2 GB of constants."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.estimator_program import CaptureError, Program
from ps_train.compat.capture.survey import survey_program
from ps_train.estimator import Estimator, EstimatorSpec, RunConfig
from tests.support.compat.programs import BATCH, CONFIG, X, Y, minimize, spec_of
from tests.support.compat.served import served
from tests.support.long import long

KERNEL = np.full((5, 1), 0.25, np.float32)


class Start(v1.train.SessionRunHook):
    """Starts the input in each new session."""

    start: Callable[[Any], Any]

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.start(session)


def fed(hook: Start, epochs: int | None) -> Any:
    x, y = v1.placeholder(tf.float32, [None, 5]), v1.placeholder(tf.float32, [None, 1])
    data = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda x, y: ({"x": x}, y)).repeat(epochs).batch(BATCH)
    iterator = v1.data.make_initializable_iterator(data)
    hook.start = lambda session: session.run(iterator.initializer, {x: X, y: Y})
    features, labels = iterator.get_next()
    return {"x": 2.0 * features["x"]}, labels


def of_a_variable(hook: Start, epochs: int | None) -> Any:
    x = v1.placeholder(tf.float32, X.shape)
    kept = v1.Variable(x, trainable=False, collections=[], use_resource=True)
    data = tf.data.Dataset.from_tensor_slices(({"x": kept}, Y)).repeat(epochs).batch(BATCH)
    iterator = v1.data.make_initializable_iterator(data)

    def start(session: Any) -> None:
        session.run(kept.initializer, {x: X})
        session.run(iterator.initializer)

    hook.start = start
    return iterator.get_next()


def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    kernel = v1.get_variable("kernel", [5, 1], initializer=v1.constant_initializer(KERNEL))
    loss = tf.reduce_mean((features["x"] @ kernel - labels) ** 2)
    metrics = {"error": v1.metrics.mean_absolute_error(labels, features["x"] @ kernel)} if mode == "eval" else None
    return EstimatorSpec(mode, loss=loss, train_op=minimize(loss), eval_metric_ops=metrics)


def expected(scale: float, steps: int) -> np.ndarray:
    """The weights by numpy, with the accumulators of Adagrad."""
    kernel, total = KERNEL.astype(np.float64), np.full([5, 1], 0.1)
    for number in range(steps):
        rows = np.arange(number * BATCH, (number + 1) * BATCH) % len(X)
        gradient = 2 * scale * X[rows].T @ (scale * X[rows] @ kernel - Y[rows]) / BATCH
        total += gradient**2
        kernel -= 0.1 * gradient / np.sqrt(total)
    return kernel


@pytest.mark.parametrize(
    ("make", "scale", "epochs", "last"),
    [(fed, 2.0, None, 20), long(fed, 2.0, 1, len(X) // BATCH), long(of_a_variable, 1.0, None, 20)],
    ids=lambda value: getattr(value, "__name__", "-"),
)
def test_a_hook_starts_the_input_in_a_cluster_and_in_an_evaluation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, make: Any, scale: float, epochs: int | None, last: int
) -> None:
    hook = Start()
    with served(2, monkeypatch):
        model = Estimator(model_fn, config=RunConfig(str(tmp_path), engine="ps_train", save_checkpoints_steps=100))
        model.train(lambda: make(hook, epochs), [hook], max_steps=20)
    assert model.get_variable_value("global_step") == last
    kernel = model.get_variable_value("kernel")
    np.testing.assert_allclose(kernel, expected(scale, last), rtol=1e-4)
    found = model.evaluate(lambda: make(hook, 1), hooks=[hook])
    assert found["error"] == pytest.approx(np.abs(scale * X @ kernel - Y).mean(), rel=1e-4)


def test_an_input_that_no_hook_starts_is_left_to_tensorflow() -> None:
    def model_of(features: Any, labels: Any, mode: str) -> Any:
        spec = model_fn(features, labels, mode)
        return spec_of(spec.loss, spec.train_op)

    with pytest.raises(CaptureError, match="the values that its input reads are given by other means than a hook"):
        survey_program(Program(model_of, lambda: fed(Start(), None), CONFIG, "unused"))


def test_initializers_of_iterators_in_a_collection_do_not_read_data_twice() -> None:
    """`tf.tables_initializer` starts such an iterator, as programs without a hook have it."""

    def in_a_collection() -> Any:
        iterator = v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors(({"x": X}, Y)).repeat())
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        return iterator.get_next()

    def model_of(features: Any, labels: Any, mode: str) -> Any:
        (one,) = v1.get_collection(v1.GraphKeys.TABLE_INITIALIZERS)
        assert one.type == "NoOp"
        spec = model_fn(features, labels, mode)
        return spec_of(spec.loss, spec.train_op)

    survey_program(Program(model_of, in_a_collection, CONFIG, "unused"))
