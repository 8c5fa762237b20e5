"""The batches of an input_fn are used as they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.captured_model import CapturedModel
from ps_train.compat.capture.estimator_program import Program
from ps_train.compat.capture.survey import survey_program
from tests.support.clusters.cluster import InProcessCluster
from tests.support.compat.programs import BATCH, CONFIG, X, Y, input_fn, minimize, spec_of


def test_point_47_tensors_of_an_iterator_features_alone_and_constant_tensors() -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = v1.get_variable("w", [5, 1], initializer=v1.ones_initializer())
        loss = tf.reduce_mean((features["x"] @ w - (0.5 if labels is None else labels)) ** 2)
        return spec_of(loss, minimize(loss))

    def tensors() -> Any:
        features, labels = v1.data.make_one_shot_iterator(input_fn()).get_next()
        return {"x": 2 * features["x"]}, labels

    def features_alone() -> Any:
        return tf.data.Dataset.from_tensor_slices({"x": X}).repeat().batch(BATCH)

    def constants() -> Any:
        return {"x": tf.constant(X)}, tf.constant(Y)

    def numbers(program_input: Callable[[], Any]) -> np.ndarray:
        program = Program(model_fn, program_input, CONFIG, "unused")
        cluster = InProcessCluster(CapturedModel(program, survey_program(program), True), 1, 1, epochs=1)
        cluster.start()
        cluster.train(3)
        return cluster.values()["w"]

    def expected(batches: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        w, total = np.ones([5, 1]), np.full([5, 1], 0.1)
        for x, y in batches:
            gradient = 2 * x.T @ (x @ w - y) / len(x)
            total += gradient**2
            w -= 0.1 * gradient / np.sqrt(total)
        return w

    three = [(X[i : i + BATCH], Y[i : i + BATCH]) for i in range(0, 3 * BATCH, BATCH)]
    np.testing.assert_allclose(numbers(tensors), expected([(2 * x, y) for x, y in three]), rtol=1e-4)
    half = [(x, np.full_like(y, 0.5)) for x, y in three]
    np.testing.assert_allclose(numbers(features_alone), expected(half), rtol=1e-4)
    np.testing.assert_allclose(numbers(constants), expected([(X, Y)] * 3), rtol=1e-4)
