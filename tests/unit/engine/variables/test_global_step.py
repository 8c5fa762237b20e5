"""The step that a model sees as the global one, and its value on the ps."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.global_step import overriding_global_step, pulled_step
from ps_train.engine.variables.variables import ps_device
from tests.support.graphs.local import LocalSession


@pytest.mark.parametrize("has_one_before", [False, True])
def test_within_the_body_the_global_step_is_another_and_then_as_before(has_one_before: bool) -> None:
    with tf.Graph().as_default():
        before = v1.train.create_global_step() if has_one_before else None
        step = tf.constant(7, tf.int64)
        with pytest.raises(KeyError), overriding_global_step(step):
            assert v1.train.get_global_step() is step
            raise KeyError
        assert v1.train.get_global_step() is before


def test_overrides_may_be_nested() -> None:
    with tf.Graph().as_default():
        outer, inner = tf.constant(1, tf.int64), tf.constant(2, tf.int64)
        with overriding_global_step(outer):
            with overriding_global_step(inner):
                assert v1.train.get_global_step() is inner
            assert v1.train.get_global_step() is outer


def test_a_step_is_pulled_on_its_ps_after_a_tensor_there() -> None:
    with tf.Graph().as_default() as graph:
        with v1.device(ps_device(1)):
            step = v1.Variable(5, dtype=tf.int64, use_resource=True)
            with tf.control_dependencies([step.assign(9, read_value=False)]):
                after = tf.constant(0)
        with v1.device("/job:worker/task:0"):
            found = pulled_step(step, after)
        assert found.device == ps_device(1)
        assert LocalSession(graph).run(found) == 9
