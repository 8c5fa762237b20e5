"""The hook in a process without a cluster; tests/process/test_classic_jobs.py has it in clusters."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import stop_settings
from ps_train.compat.train.monitored_session import MonitoredTrainingSession
from ps_train.compat.train.stop_at_step import StopAtStepHook, exact


@pytest.fixture
def step():
    with tf.Graph().as_default():
        yield v1.train.get_or_create_global_step()


@pytest.mark.parametrize(("options", "last"), [({"last_step": 4}, 4), ({"num_steps": 3}, 3)])
def test_training_ends_at_the_step(step, options, last):
    train_op = v1.assign_add(step, 1)
    with MonitoredTrainingSession(hooks=[StopAtStepHook(**options)]) as session:
        while not session.should_stop():
            session.run(train_op)
        assert session.run(step) == last


def test_calls_that_do_not_train_are_not_counted(step):
    train_op, value = v1.assign_add(step, 1), tf.constant(7)
    seen = []
    with MonitoredTrainingSession(hooks=[StopAtStepHook(num_steps=2)]) as session:
        while not session.should_stop():
            seen.append(session.run(value))
            session.run(train_op)
    assert seen == [7, 7]


@pytest.mark.parametrize("options", [{}, {"num_steps": 1, "last_step": 1}])
def test_exactly_one_number_is_given(options):
    with pytest.raises(ValueError, match="num_steps or last_step"):
        StopAtStepHook(**options)


def test_a_graph_without_a_global_step_is_refused():
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="no global step"):
        StopAtStepHook(last_step=1).begin()


def test_tensorflows_hook_becomes_the_exact_one_and_a_users_stays():
    class Own(v1.train.StopAtStepHook):
        pass

    own, exact_one, other = Own(last_step=1), StopAtStepHook(last_step=1), v1.train.SessionRunHook()
    for hook in (own, exact_one, other):
        assert exact(hook) is hook
    for options in ({"last_step": 5}, {"num_steps": 2}):
        found = exact(v1.train.StopAtStepHook(**options))
        assert type(found) is StopAtStepHook and stop_settings(found) == stop_settings(StopAtStepHook(**options))


def test_it_is_a_hook_of_tensorflows_kind():
    assert isinstance(StopAtStepHook(last_step=1), v1.train.StopAtStepHook)
