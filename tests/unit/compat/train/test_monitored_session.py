"""The session of one process: initialization, checkpoints, hooks, and calls after the stop."""

from __future__ import annotations

import inspect

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.train.monitored_session import MonitoredTrainingSession
from ps_train.compat.train.stop_at_step import StopAtStepHook


def train(directory, last_step, **options):
    """Trains to a step; returns the weight after it, and the steps of the session."""
    with tf.Graph().as_default():
        step, weight = (
            v1.train.get_or_create_global_step(),
            v1.get_variable("w", [], initializer=v1.zeros_initializer()),
        )
        with tf.control_dependencies([v1.assign_add(weight, 2.0)]):
            train_op = v1.assign_add(step, 1)
        count = 0
        hooks = [StopAtStepHook(last_step=last_step)]
        with MonitoredTrainingSession("", True, directory, hooks=hooks, **options) as session:
            while not session.should_stop():
                session.run(train_op)
                count += 1
            return float(session.run(weight)), count


def test_training_goes_on_from_the_checkpoint(tmp_path):
    assert train(str(tmp_path), 3) == (6.0, 3)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-3")
    assert train(str(tmp_path), 5) == (10.0, 2)


def test_checkpoints_are_saved_as_often_as_asked(tmp_path):
    train(str(tmp_path), 4, save_checkpoint_steps=2)
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert [path.rpartition("-")[2] for path in state.all_model_checkpoint_paths] == ["0", "2", "4"] or [
        path.rpartition("-")[2] for path in state.all_model_checkpoint_paths
    ] == ["1", "3", "4"]


def test_none_for_both_means_no_checkpoint(tmp_path):
    train(str(tmp_path), 2, save_checkpoint_secs=None, save_checkpoint_steps=None)
    assert tf.train.latest_checkpoint(str(tmp_path)) is None


def test_summaries_and_rates_are_written(tmp_path):
    train(str(tmp_path), 4, log_step_count_steps=2)
    assert [path for path in tmp_path.iterdir() if "tfevents" in path.name]


def test_a_call_after_the_stop_evaluates_and_does_not_train():
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        train_op = v1.assign_add(step, 1)
        with MonitoredTrainingSession(hooks=[StopAtStepHook(last_step=1)]) as session:
            session.run(train_op)
            assert session.run(step) == 1
            with pytest.raises(tf.errors.OutOfRangeError, match=r"test session\.should_stop"):
                session.run(train_op)
            assert session.run(step) == 1


def test_hooks_of_the_chief_and_of_all_are_called():
    calls = []

    class Hook(v1.train.SessionRunHook):
        def __init__(self, name):
            self.name = name

        def begin(self):
            calls.append(self.name)

    with tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        with MonitoredTrainingSession(hooks=[Hook("all")], chief_only_hooks=[Hook("chief")]):
            pass
    assert calls == ["chief", "all"]


def test_the_signature_is_tensorflows():
    assert inspect.signature(MonitoredTrainingSession) == inspect.signature(v1.train.MonitoredTrainingSession)
    with pytest.raises(TypeError, match="save_checkpoints_secs"):
        MonitoredTrainingSession(save_checkpoints_secs=3)


def test_it_is_a_session_of_tensorflows_kind():
    with tf.Graph().as_default(), MonitoredTrainingSession() as session:
        assert isinstance(session, v1.train.MonitoredSession)
