"""A global step that a script makes itself is found by name, by the names of tf.train and by TensorFlow's hooks."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import train
from ps_train.compat.train.global_step import note_global_step


def by_variable():
    return tf.Variable(0, name="global_step", trainable=False)


def by_get_variable():
    return v1.get_variable("global_step", [], tf.int64, v1.zeros_initializer(), trainable=False)


made = pytest.mark.parametrize("make", [by_variable, by_get_variable])


@made
def test_it_is_found_and_no_second_one_is_made(make):
    with tf.Graph().as_default():
        assert train.get_global_step() is None
        step = make()
        assert train.get_global_step() is step and train.get_or_create_global_step() is step
        assert v1.train.get_global_step() is step and len(v1.global_variables()) == 1


@made
def test_hooks_count_it_and_training_ends_at_its_step(make, tmp_path):
    with tf.Graph().as_default():
        weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
        loss = tf.square(weight - 1.0)
        train_op = v1.train.GradientDescentOptimizer(0.25).minimize(loss, make())
        hooks = [train.StopAtStepHook(last_step=5), v1.train.StopAtStepHook(last_step=9)]
        options = {"save_checkpoint_steps": 2, "log_step_count_steps": 1, "save_summaries_steps": 1}
        with train.MonitoredTrainingSession("", True, str(tmp_path), hooks=hooks, **options) as session:
            while not session.should_stop():
                session.run(train_op)
            assert session.run(weight) == pytest.approx(1 - 0.5**5)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-5")


@pytest.mark.parametrize("kind", ["MonitoredSession", "SingularMonitoredSession"])
def test_hooks_of_a_plain_session_find_it(kind, tmp_path):
    with tf.Graph().as_default():
        train_op = v1.assign_add(by_variable(), 1)
        hooks = [v1.train.StopAtStepHook(last_step=3), v1.train.CheckpointSaverHook(str(tmp_path), save_steps=100)]
        with getattr(train, kind)(hooks=hooks) as session:
            while not session.should_stop():
                session.run(train_op)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-3")


def test_a_supervisor_finds_it(tmp_path):
    with tf.Graph().as_default():
        train_op = v1.assign_add(by_variable(), 3)
        supervisor = train.Supervisor(logdir=str(tmp_path), save_summaries_secs=0, save_model_secs=0)
        assert supervisor.global_step is not None
        with supervisor.managed_session() as session:
            session.run(train_op)
            assert session.run(supervisor.global_step) == 3


@pytest.mark.parametrize(
    "make", [lambda: tf.Variable([0], name="global_step"), lambda: tf.Variable(0, name="my/global_step")]
)
def test_other_variables_are_not_taken_for_it(make):
    with tf.Graph().as_default():
        make()
        note_global_step()
        assert v1.get_collection(v1.GraphKeys.GLOBAL_STEP) == []


def test_files_that_are_matched_once_fill_a_queue(tmp_path):
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / name).write_text("x")
    with tf.Graph().as_default():
        files = train.match_filenames_once(str(tmp_path / "*.txt"))
        queue = train.string_input_producer(files, num_epochs=1, shuffle=False)
        name = queue.dequeue()
        with train.MonitoredTrainingSession() as session:
            found = [session.run(name), session.run(name)]
    assert found == [str(tmp_path / "a.txt").encode(), str(tmp_path / "b.txt").encode()]
