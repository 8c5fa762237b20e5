"""The optimizer in one process; tests/process/test_classic_jobs.py has it in clusters."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import sync_settings
from ps_train.compat.train.monitored_session import MonitoredTrainingSession
from ps_train.compat.train.stop_at_step import StopAtStepHook
from ps_train.compat.train.sync_replicas import SyncReplicasOptimizer, exact_of, optimizer_of

GRADIENTS = np.array([[1.0, 2.0], [3.0, -1.0], [5.0, 5.0], [-2.0, 0.0]], np.float32)


def train(aggregate, inner=None, sparse=False):
    """Applies the gradients one by one; returns weights after each call, the last ones and the global step."""
    with tf.Graph().as_default():
        weight = v1.get_variable("w", [3, 2] if sparse else [2], initializer=v1.zeros_initializer())
        given = v1.placeholder(tf.float32, [2])
        loss = tf.reduce_sum(tf.gather(weight, [1]) * given if sparse else weight * given)
        optimizer = SyncReplicasOptimizer(inner or v1.train.GradientDescentOptimizer(0.5), aggregate)
        train_op = optimizer.minimize(loss, global_step=v1.train.get_or_create_global_step())
        after = []
        with MonitoredTrainingSession(hooks=[optimizer.make_session_run_hook(True)]) as session:
            for row in GRADIENTS:
                session.run(train_op, {given: row})
                after.append(session.run(weight))
            return after, int(session.run(v1.train.get_global_step())), optimizer.get_slot_names()


def test_each_gradient_makes_an_update_of_its_own_from_the_first_step_on():
    after, step, _ = train(1)
    np.testing.assert_allclose(after, -0.5 * np.cumsum(GRADIENTS, axis=0), rtol=1e-6)
    assert step == 4


def test_an_update_is_the_mean_of_the_gradients_that_it_asks_for():
    after, step, _ = train(2)
    np.testing.assert_allclose(after[-1], -0.5 * (GRADIENTS[:2].mean(0) + GRADIENTS[2:].mean(0)), rtol=1e-6)
    assert step == 2


def test_rows_are_updated_alone():
    after, _, _ = train(1, sparse=True)
    np.testing.assert_allclose(after[-1], [[0, 0], -0.5 * GRADIENTS.sum(0), [0, 0]], rtol=1e-6)


def test_the_mean_of_a_row_counts_the_gradients_without_it():
    with tf.Graph().as_default():
        weight = v1.get_variable("w", [3, 2], initializer=v1.zeros_initializer())
        given, rows = v1.placeholder(tf.float32, [2]), v1.placeholder(tf.int32, [None])
        optimizer = SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.5), 2)
        loss = tf.reduce_sum(tf.gather(weight, rows) * given)
        train_op = optimizer.minimize(loss, global_step=v1.train.get_or_create_global_step())
        with MonitoredTrainingSession(hooks=[optimizer.make_session_run_hook(True)]) as session:
            for row, used in zip(GRADIENTS, ([2, 0], [2], [], [1, 1]), strict=True):
                session.run(train_op, {given: row, rows: used})
            after = session.run(weight)
    first, second, _, fourth = GRADIENTS
    np.testing.assert_allclose(after, -0.5 * np.array([first / 2, fourth, (first + second) / 2]), rtol=1e-6)


def test_slots_are_those_of_the_optimizer_inside():
    after, step, slots = train(1, v1.train.MomentumOptimizer(0.5, 0.9))
    velocity, weight = np.zeros(2), np.zeros(2)
    for row in GRADIENTS:
        velocity = 0.9 * velocity + row
        weight = weight - 0.5 * velocity
    np.testing.assert_allclose(after[-1], weight, rtol=1e-5)
    assert step == 4 and slots == ["momentum"]


def test_training_ends_at_the_last_step():
    with tf.Graph().as_default():
        weight = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        optimizer = SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(1.0), 1)
        train_op = optimizer.minimize(-weight, global_step=v1.train.get_or_create_global_step())
        hooks = [StopAtStepHook(last_step=5), optimizer.make_session_run_hook(is_chief=True)]
        with MonitoredTrainingSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(train_op)
            assert session.run(weight) == 5.0


def test_what_must_be_given_is_asked_for():
    with tf.Graph().as_default() as graph:
        optimizer = SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(1.0), 4, total_num_replicas=2)
        for call in (optimizer.get_chief_queue_runner, optimizer.get_init_tokens_op):
            with pytest.raises(ValueError, match="before apply_gradients"):
                call()
        with pytest.raises(ValueError, match="before apply_gradients"):
            optimizer.make_session_run_hook(True).begin()
        with pytest.raises(ValueError, match="no global_step"):
            optimizer.apply_gradients([(tf.constant(1.0), v1.get_variable("w", []))])
        with pytest.raises(ValueError, match=r"no \(gradient, variable\) pair"):
            optimizer.apply_gradients([], v1.train.get_or_create_global_step())
        assert optimizer_of(graph) is None
        optimizer.minimize(v1.get_variable("v", []), global_step=v1.train.get_global_step())
        with pytest.raises(ValueError, match="num_tokens=1 is too few"):
            optimizer.get_init_tokens_op(1)
        assert optimizer_of(graph) is optimizer
        assert isinstance(optimizer, v1.train.SyncReplicasOptimizer)


def test_a_moving_average_follows_the_updates():
    with tf.Graph().as_default():
        weight = v1.get_variable("w", [], initializer=v1.zeros_initializer())
        average = tf.train.ExponentialMovingAverage(0.5)
        optimizer = SyncReplicasOptimizer(
            v1.train.GradientDescentOptimizer(1.0), 1, variable_averages=average, variables_to_average=[weight]
        )
        train_op = optimizer.minimize(-weight, global_step=v1.train.get_or_create_global_step())
        with MonitoredTrainingSession(hooks=[optimizer.make_session_run_hook(True)]) as session:
            session.run([train_op])
            session.run([train_op])
            assert session.run(average.average(weight)) == pytest.approx(0.5 * (0.5 * 0 + 0.5 * 1) + 0.5 * 2)


def test_the_exact_optimizer_in_the_place_of_tensorflows_has_its_averages():
    with tf.Graph().as_default():
        inner, average = v1.train.GradientDescentOptimizer(1.0), tf.train.ExponentialMovingAverage(0.5)
        weight = v1.get_variable("w", [])
        given = v1.train.SyncReplicasOptimizer(inner, 2, 3, variable_averages=average, variables_to_average=[weight])
        exact = exact_of(given)
        assert sync_settings(exact) == sync_settings(given) == (inner, 2, 3, average, [weight])


@pytest.mark.parametrize("is_of_tensorflow_1", [False, True])
def test_a_round_inside_of_a_condition_is_refused(is_of_tensorflow_1):
    with tf.Graph().as_default():
        weight, step = v1.get_variable("w", initializer=1.0), v1.train.get_or_create_global_step()
        optimizer = SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.5), 1)
        pairs = [(tf.constant(1.0), weight)]
        (v1.disable_control_flow_v2 if is_of_tensorflow_1 else v1.enable_control_flow_v2)()
        try:
            with pytest.raises(ValueError, match="inside of a condition, a loop"):
                tf.cond(step % 2 > 0, lambda: optimizer.apply_gradients(pairs, step), tf.no_op)
        finally:
            v1.enable_control_flow_v2()
