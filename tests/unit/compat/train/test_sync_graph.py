"""Accumulators of dense and sparse gradients, and the queues of messages and tokens."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.train.sync_graph import Accumulator, Messages, RoundTensors


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_the_mean_of_a_round_drops_gradients_of_earlier_steps():
    variable, given = v1.get_variable("w", [2]), v1.placeholder(tf.float32, [2])
    step, now = v1.placeholder(tf.int64, []), tf.constant(3, tf.int64)
    accumulator = Accumulator.of(given, variable)
    push, taken, begin = accumulator.push(given, step), accumulator.take(), accumulator.begin_at(now)
    with v1.Session() as session:
        session.run(begin)
        for row, at in (([1, 2], 3), ([9, 9], 2), ([3, 4], 3)):
            session.run(push, {given: row, step: at})
        assert session.run(accumulator.accumulator.num_accumulated()) == 2
        np.testing.assert_allclose(session.run(taken), [2, 3])


def test_rows_are_averaged_over_gradients():
    variable = v1.get_variable("w", [4, 1])
    gradient = tf.IndexedSlices(v1.placeholder_with_default([[2.0]], [1, 1]), tf.constant([1], tf.int64), [4, 1])
    accumulator = Accumulator.of(gradient, variable)
    push, taken = accumulator.push(gradient, tf.constant(0, tf.int64)), accumulator.take()
    with v1.Session() as session:
        session.run(push)
        session.run(push)
        found = session.run(taken)
    np.testing.assert_allclose(found.values, [[2.0]])
    assert found.indices.tolist() == [1]


def test_another_kind_of_gradient_is_refused():
    with pytest.raises(ValueError, match="the gradient of w:0 is a str"):
        Accumulator.of("gradient", v1.get_variable("w", []))


def test_messages_and_tokens_go_through_queues():
    step = v1.get_variable("step", [], tf.int64, v1.zeros_initializer())
    with tf.control_dependencies([v1.assign_add(step, 5)]) as _:
        updated = tf.identity(step.read_value())
    tensors = RoundTensors(tf.no_op(), updated, tf.identity(step.read_value()), [], [], tf.no_op())
    messages = Messages.make(2, tensors)
    tokens = [queue.dequeue() for queue in messages.tokens]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(messages.send, {messages.worker: 1, messages.step: 4})
        assert session.run(messages.size) == 1
        assert session.run(messages.receive, {messages.number: 1}).tolist() == [[1, 4]]
        session.run(messages.give[0])
        session.run(messages.give_after_update[1])
        assert session.run(tokens) == [0, 5]
