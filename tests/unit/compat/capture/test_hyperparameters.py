"""Hyperparameters of an optimizer are made again from the global step where it is used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.hyperparameters import on_this_ps
from ps_train.engine.variables.global_step import overriding_global_step


def in_a_branch(step: Any) -> tf.Tensor:
    return v1.cond(step < 5, lambda: tf.cast(step, tf.float32) / 10, lambda: tf.constant(0.5))


SCHEDULES = {
    "exponential": lambda step: v1.train.exponential_decay(0.5, step, 2, 0.5),
    "piecewise": lambda step: v1.train.piecewise_constant(step, [3, 6], [0.3, 0.2, 0.1]),
    "polynomial": lambda step: v1.train.polynomial_decay(0.5, step, 10),
    "in a branch": in_a_branch,
    "constant": lambda step: tf.constant(0.25),
    "the step": lambda step: tf.cast(step, tf.float32),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("number", [0, 4, 7])
def test_a_rate_is_that_of_the_step_of_the_ps(schedule: str, number: int) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        of_the_model = v1.placeholder_with_default(np.int64(99), [], "step")
        optimizer = v1.train.MomentumOptimizer(SCHEDULES[schedule](of_the_model), 0.9)
        with overriding_global_step(tf.constant(number, tf.int64)):
            found = on_this_ps(optimizer, of_the_model)
        rate = tf.convert_to_tensor(found._learning_rate)
        expected = SCHEDULES[schedule](tf.constant(number, tf.int64))
        assert session.run(rate) == session.run(tf.convert_to_tensor(expected))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_rate_of_a_step_of_the_graph_around_a_condition(schedule: str) -> None:
    """As in a local step whose batch may be left out."""
    with tf.Graph().as_default(), v1.Session() as session:
        of_the_model = v1.placeholder_with_default(np.int64(99), [], "step")
        optimizer = v1.train.MomentumOptimizer(SCHEDULES[schedule](of_the_model), 0.9)
        present = v1.placeholder_with_default(np.int64(4), [], "present")

        def rate() -> tf.Tensor:
            with overriding_global_step(present):
                return tf.convert_to_tensor(on_this_ps(optimizer, of_the_model)._learning_rate)

        found = v1.cond(v1.placeholder_with_default(True, []), rate, lambda: tf.constant(-1.0))
        expected = SCHEDULES[schedule](tf.constant(4, tf.int64))
        assert session.run(found) == session.run(tf.convert_to_tensor(expected))


def test_a_rate_may_be_made_in_another_graph_and_by_a_function() -> None:
    with tf.Graph().as_default():
        step = v1.placeholder(tf.int64, [], "step")
        by_tensor = v1.train.GradientDescentOptimizer(0.5 * tf.cast(step, tf.float32))
        by_function = v1.train.AdamOptimizer(lambda: 2.0 * tf.cast(v1.train.get_global_step(), tf.float32))
    with tf.Graph().as_default(), v1.Session() as session, overriding_global_step(tf.constant(6, tf.int64)):
        assert session.run(on_this_ps(by_tensor, step)._learning_rate) == 3.0
        assert session.run(on_this_ps(by_function, step)._lr) == 12.0


def test_a_copy_shares_no_slots() -> None:
    with tf.Graph().as_default():
        optimizer = v1.train.AdagradOptimizer(0.1)
        first, second = on_this_ps(optimizer, None), on_this_ps(optimizer, None)
        for own in (first, second):
            variable = v1.Variable([1.0], name="w", use_resource=True)
            own.apply_gradients([(tf.constant([1.0]), variable)])
        assert len(first.variables()) == len(second.variables()) == 1 and optimizer.variables() == []
