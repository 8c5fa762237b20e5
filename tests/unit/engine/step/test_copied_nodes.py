"""Copies of nodes: what they share, what they wait for, and what they use in place of their own."""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.copied_nodes import Gate, Template, ps_of, pull_gate

PS, WORKER = "/job:ps/replica:0/task:{}/device:CPU:0", "/job:worker/replica:0/task:0"


def step() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """A value that is read on ps 1, what a worker makes of it, and a random number there."""
    v1.set_random_seed(1)
    with tf.device(PS.format(1)):
        variable = v1.get_variable("w", [], initializer=v1.ones_initializer(), use_resource=True)
        read = variable.read_value()
    with tf.device(WORKER):
        number = tf.random.uniform([])
        return read, tf.add(read * 2, number, name="made"), number


def test_a_read_on_a_ps_waits_for_its_gate_and_other_nodes_for_none() -> None:
    with tf.Graph().as_default() as graph:
        read, made, _ = step()
        after = tf.no_op(name="after")
        (copy,) = Template([made.op]).import_copy("copy", 1, {pull_gate(1): Gate(PS.format(1), [after])})
        copied = graph.get_operation_by_name(f"copy/{read.op.inputs[0].op.name}")
        (gate,) = copied.control_inputs
        assert gate.control_inputs == [after] and ps_of(gate) == 1
        assert copy.name == "copy/made" and not copy.control_inputs


def test_a_variable_is_shared_and_a_random_number_is_another() -> None:
    with tf.Graph().as_default():
        _, made, number = step()
        template = Template([made.op, number.op])
        copies = [template.import_copy(f"copy_{n}", n, {pull_gate(1): Gate("", [])}) for n in (1, 2)]
        assert len(v1.global_variables()) == 1
        assert len({op.get_attr("seed2") for op in (number.op, copies[0][1], copies[1][1])}) == 3


def test_a_copy_uses_what_is_given_in_place_of_a_tensor_of_its_own() -> None:
    with tf.Graph().as_default():
        read, made, _ = step()
        given = tf.constant(5.0)
        (copy,) = Template([made.op]).import_copy("copy", 1, {pull_gate(1): Gate("", [])}, {read.name: given})
        assert copy.inputs[0].op.inputs[0] is given


def test_the_copies_that_are_asked_for_are_returned() -> None:
    with tf.Graph().as_default():
        read, made, number = step()
        template = Template([made.op])
        found = template.import_copy("copy", 1, {pull_gate(1): Gate("", [])}, targets=[number.op, read.op])
        assert [op.name for op in found] == [f"copy/{number.op.name}", f"copy/{read.op.name}"]


def test_the_ps_of_an_operation_without_a_device_is_that_of_its_resource() -> None:
    with tf.Graph().as_default():
        with tf.device(PS.format(3)):
            variable = v1.get_variable("w", [], use_resource=True)
        assert ps_of(variable.assign_add(1.0, read_value=False)) == 3
        assert ps_of(tf.constant(0).op) is None
