"""The variables that a model assigns are found, wherever in its graph it does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables.assigned_variables import assigned_variables, writers
from ps_train.engine.variables.copied_functions import FunctionLibrary


def found(use: Callable[[Any], Any], apart: bool = False) -> list[str]:
    """The assigned ones of two variables, of which the second is used."""
    with tf.Graph().as_default() as graph:
        variables = {
            name: v1.get_variable(name, [3], initializer=v1.zeros_initializer(), use_resource=True)
            for name in ("other", "mine")
        }
        variables["other"].read_value()
        before = set(graph.get_operations())
        use(variables["mine"])
        made = [op for op in graph.get_operations() if op not in before] if apart else []
        return assigned_variables(variables, made)


def in_branch(variable: Any) -> None:
    tf.cond(tf.constant(True), lambda: variable.assign_add(tf.ones(3)).op, tf.no_op)


def in_old_branch(variable: Any) -> None:
    v1.disable_control_flow_v2()
    try:
        v1.cond(v1.placeholder(tf.bool, []), lambda: tf.group(variable.assign(tf.ones(3))), tf.no_op)
    finally:
        v1.enable_control_flow_v2()


def in_loop(variable: Any) -> None:
    def body(number: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([variable.assign_add(tf.ones(3)).op]):
            return number + 1

    tf.while_loop(lambda number: number < 3, body, [0])


def in_nested_function(variable: Any) -> None:
    @tf.function
    def inner() -> None:
        variable.assign_sub(tf.ones(3))

    @tf.function
    def outer() -> None:
        inner()

    outer()


WRITES = {
    "assign": lambda variable: variable.assign(tf.ones(3)),
    "assign_add": lambda variable: variable.assign_add(tf.ones(3)),
    "scatter": lambda variable: variable.scatter_nd_update([[1]], [5.0]),
    "scatter_add": lambda variable: tf.raw_ops.ResourceScatterAdd(
        resource=tf.identity(variable.handle), indices=[0], updates=[1.0]
    ),
    "optimizer": lambda variable: v1.train.AdamOptimizer().apply_gradients([(tf.ones(3), variable)]),
    "branch": in_branch,
    "old branch": in_old_branch,
    "loop": in_loop,
    "function": in_nested_function,
}

READS = {
    "nothing": lambda variable: None,
    "read": lambda variable: variable.read_value() + 1.0,
    "gather": lambda variable: tf.gather(variable, [0, 2]),
    "gather_nd": lambda variable: variable.gather_nd([[1]]),
    "shape": lambda variable: tf.raw_ops.VariableShape(input=variable.handle),
    "initialized": lambda variable: variable.is_initialized(),
    "branch": lambda variable: tf.cond(tf.constant(True), lambda: variable + 1.0, lambda: variable * 2.0),
    "function": lambda variable: tf.function(lambda: variable + 1.0)(),
}


@pytest.mark.parametrize("use", WRITES.values(), ids=WRITES)
def test_a_variable_is_assigned_by_whatever_writes_to_it_alone(use: Callable[[Any], Any]) -> None:
    assert found(use) == ["mine"]


@pytest.mark.parametrize("use", READS.values(), ids=READS)
def test_reading_is_no_assignment_and_nor_is_the_initializer(use: Callable[[Any], Any]) -> None:
    assert found(use) == []


def test_operations_that_do_not_count_are_left_out() -> None:
    assert found(WRITES["assign"], apart=True) == []


def test_a_graph_without_operations_has_none() -> None:
    with tf.Graph().as_default():
        assert assigned_variables({}) == []


def test_writers_are_the_operations_themselves_each_once() -> None:
    with tf.Graph().as_default() as graph:
        variable = v1.get_variable("w", [], initializer=v1.zeros_initializer(), use_resource=True)
        first = variable.assign_add(1.0, read_value=False)
        second = variable.assign(2.0, read_value=False)
        library = FunctionLibrary.of(graph.get_operations())
        assert writers(variable.handle, library, variable.initializer) == [first, second]
        assert writers(variable.handle, library) == [variable.initializer, first, second]


def test_a_writer_that_is_reached_on_two_ways_is_found_once() -> None:
    with tf.Graph().as_default():
        variable = v1.get_variable("w", [], initializer=v1.zeros_initializer(), use_resource=True)
        merged = tf.raw_ops.Merge(inputs=[tf.identity(variable.handle), tf.identity(variable.handle)]).output
        write = tf.raw_ops.AssignVariableOp(resource=merged, value=1.0)
        assert writers(variable.handle, FunctionLibrary({}), variable.initializer) == [write]
