"""How equal a program's first step is to TensorFlow's: gradients to the noise of float32, which Adam enlarges.

A bias that is subtracted again by a batch normalization has the gradient zero, of which only noise is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.captured_model import CapturedModel
from ps_train.compat.capture.estimator_program import Program
from ps_train.compat.capture.survey import survey_program
from ps_train.compat.tf1 import legacy
from tests.support.clusters.cluster import InProcessCluster
from tests.support.compat.programs import CONFIG, embedding, input_fn, plain_values, spec_of, step

RATE = 0.005
dense, batch_normalization = (legacy.name("layers", each) for each in ("dense", "batch_normalization"))
NO_GRADIENT = {"task_0/before/bias", "task_1/before/bias"}


def experts(features: Any, labels: Any, train: Callable[[tf.Tensor], Any]) -> Any:
    """Two tasks with a gate each over shared experts, and towers with batch normalizations."""
    x = tf.concat([features["x"], tf.reduce_mean(tf.nn.embedding_lookup(embedding(), features["ids"]), 1)], 1)
    found = tf.stack([dense(x, 8, activation=tf.nn.relu, name=f"expert_{number}") for number in range(4)], 1)
    losses = []
    for number in range(2):
        with v1.variable_scope(f"task_{number}"):
            gate = dense(x, 4, activation=tf.nn.softmax, use_bias=False, name="gate")
            net = tf.reduce_sum(found * gate[:, :, tf.newaxis], 1)
            for name, activation in (("before", None), ("second", tf.nn.relu)):
                net = batch_normalization(dense(net, 6, activation=activation, name=name), training=True)
            logits = dense(net, 1, name="logit")
        wanted = tf.cast(labels > 0.3 * number, tf.float32)
        losses.append(tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits)))
    loss = tf.add_n(losses)
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        return spec_of(loss, train(loss))


def first_step(train: Callable[[tf.Tensor], Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Returns the initial values, and those after a step on the engine and in TensorFlow."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        return experts(features, labels, train)

    program = Program(model_fn, input_fn, CONFIG, "unused")
    cluster = InProcessCluster(CapturedModel(program, survey_program(program), True), 1, 1, None, 64, epochs=1)
    cluster.start()
    initial = cluster.values()
    cluster.train(1)
    return initial, cluster.values(), plain_values(program, initial, 1)


@pytest.mark.long
def test_the_gradients_of_the_first_step_are_tensorflows_to_the_noise_of_floats() -> None:
    initial, found, expected = first_step(lambda loss: v1.train.GradientDescentOptimizer(1.0).minimize(loss, step()))
    assert len(expected) > 30 and expected.keys() >= NO_GRADIENT
    for name, value in expected.items():
        change = np.max(np.abs(value - initial[name]))
        assert (change < 1e-6) == (name in NO_GRADIENT), name
        scale = max(change, float(np.max(np.abs(value))), 0.1)
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-6 * scale, err_msg=name)


@pytest.mark.long
def test_adam_moves_what_has_no_gradient_by_up_to_the_learning_rate() -> None:
    initial, found, expected = first_step(lambda loss: v1.train.AdamOptimizer(RATE).minimize(loss, step()))
    moved = {name: np.max(np.abs(expected[name] - initial[name])) for name in NO_GRADIENT}
    assert max(moved.values()) > 0.1 * RATE  # the noise of TensorFlow alone
    for name, value in expected.items():
        if name in NO_GRADIENT:  # the moments of noise are noise too
            assert np.max(np.abs(found[name] - value)) <= 2.01 * RATE, name
        elif not name.endswith(("/Adam", "/Adam_1")):
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
