"""The engine counts steps; a program that counts otherwise is not captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.counted_step import ancestors, check_counting, counted_step, operations_of
from ps_train.compat.capture.estimator_program import CaptureError
from ps_train.engine.variables.global_step import overriding_global_step


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=True):
        yield graph


def minimize(step: Any) -> tf.Operation:
    weight = v1.get_variable("w", initializer=1.0)
    return v1.train.GradientDescentOptimizer(0.1).minimize(weight * 2.0, step)


def by_hand(step: Any) -> tf.Operation:
    with tf.control_dependencies([minimize(None)]):
        return tf.group(v1.assign_add(step, 1))


def read_only(step: Any) -> tf.Operation:
    return tf.group(minimize(None), tf.cast(step, tf.float32) * 2.0)


def beside(step: Any) -> tf.Operation:
    v1.assign_add(step, 100)  # nothing runs it
    return minimize(step)


def read_in_a_branch(step: Any) -> tf.Operation:
    rate = v1.cond(tf.random.uniform([]) < 0.5, lambda: 0.1 / tf.cast(step, tf.float32), lambda: 0.01)
    return tf.group(minimize(step), rate)


@pytest.mark.parametrize("train", [minimize, by_hand, read_only, read_in_a_branch, beside])
def test_counting_by_one_or_not_at_all_is_left_to_the_engine(train: Callable[[Any], tf.Operation]) -> None:
    step = v1.train.create_global_step()
    check_counting(train(step), step)


def by_two(step: Any) -> tf.Operation:
    return tf.group(minimize(step), v1.assign_add(step, 1))


def by_the_batch(step: Any) -> tf.Operation:
    return tf.group(minimize(None), v1.assign_add(step, tf.cast(tf.timestamp(), tf.int64)))


def set_to_a_value(step: Any) -> tf.Operation:
    return tf.group(minimize(None), v1.assign(step, 5))


@pytest.mark.parametrize(
    ("train", "text"),
    [(by_two, "adds 2 to the global step"), (by_the_batch, "sets the global"), (set_to_a_value, "sets the global")],
)
def test_counting_in_another_way_is_not_captured(train: Callable[[Any], tf.Operation], text: str) -> None:
    step = v1.train.create_global_step()
    with pytest.raises(CaptureError, match=text):
        check_counting(train(step), step)


def test_the_step_of_a_model_can_be_counted_and_nothing_is_assigned() -> None:
    with overriding_global_step(tf.constant(7, tf.int64)), counted_step():
        step = v1.train.get_global_step()
        after, silent = v1.assign_add(step, 1), step.assign_add(1, read_value=False)
        assert isinstance(silent, tf.Operation) and not step.trainable
        with v1.Session() as session:
            assert session.run([after, step.value(), tf.cast(step, tf.float32) / 2]) == [8, 7, 3.5]
    assert v1.train.get_global_step() is None


def test_a_variable_stays_as_it_is() -> None:
    step = v1.train.create_global_step()
    with counted_step():
        assert v1.train.get_global_step() is step


def test_operations_are_those_that_tensorflow_runs_for_operations_tensors_variables_and_names() -> None:
    with tf.Graph().as_default():
        tensor = tf.constant([1.0], name="value")
        variable = v1.get_variable("w", [], use_resource=True)
        sparse = tf.SparseTensor([[0]], tensor, [1])
        names = [op.name for op in operations_of([tensor.op, (tensor, {"a": "value"}), "value:0", None])]
        assert names == ["value"] * 4
        assert "value" in [op.name for op in operations_of(sparse)]
        assert operations_of(variable) == [variable.op]
        assigned = ancestors(v1.assign_add(variable, 1.0), with_control=True)
        assert "AssignAddVariableOp" in [op.type for op in assigned]
