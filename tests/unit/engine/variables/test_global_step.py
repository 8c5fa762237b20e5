"""Another global step for a while."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.global_step import overriding_global_step, pulled_step


def test_the_step_is_another_one_within_the_body_also_after_an_error() -> None:
    with tf.Graph().as_default():
        own = v1.train.get_or_create_global_step()
        other = tf.constant(5, tf.int64)
        with overriding_global_step(other):
            assert v1.train.get_global_step() is other
        assert v1.train.get_global_step() is own
        with pytest.raises(KeyError), overriding_global_step(other):
            raise KeyError
        assert v1.get_collection(v1.GraphKeys.GLOBAL_STEP) == [own]


def test_without_a_step_there_is_none_afterwards() -> None:
    with tf.Graph().as_default():
        with overriding_global_step(tf.constant(5, tf.int64)):
            pass
        assert v1.train.get_global_step() is None


def test_the_step_is_read_after_a_tensor() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.get_variable("step", [], tf.int64, v1.zeros_initializer(), trainable=False, use_resource=True)
        session.run(step.initializer)
        with tf.control_dependencies([step.assign(3)]):
            assigned = tf.constant(0)
        assert session.run(pulled_step(step, assigned)) == 3
