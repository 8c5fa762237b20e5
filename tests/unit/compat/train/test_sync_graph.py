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


ROUNDS = {
    "a row of one gradient": [[1, 3], [3]],
    "in another order": [[3, 1], [5, 1, 0]],
    "more than once": [[1, 1, 4], [4, 1, 4], [1]],
    "no row": [[], [2, 0]],
    "no row at all": [[], []],
}


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("width", [(), (2,)], ids=["vector", "matrix"])
@pytest.mark.parametrize("rounds", ROUNDS.values(), ids=ROUNDS)
def test_the_mean_of_a_row_counts_all_gradients_of_the_round(rounds, width, dtype):
    variable = v1.get_variable("w", [6, *width], dtype)
    values, indices = v1.placeholder(dtype, [None, *width]), v1.placeholder(tf.int32, [None])
    gradient = tf.IndexedSlices(values, indices, [6, *width])
    accumulator = Accumulator.of(gradient, variable)
    push, taken = accumulator.push(gradient, tf.constant(0, tf.int64)), tf.convert_to_tensor(accumulator.take())
    count, random = accumulator.accumulator.num_accumulated(), np.random.default_rng(1)
    expected = np.zeros([6, *width])
    with v1.Session() as session:
        for rows in rounds:
            pushed = random.normal(size=[len(rows), *width])
            np.add.at(expected, np.array(rows, int), pushed / len(rounds))
            session.run(push, {values: pushed, indices: rows})
        assert session.run(count) == len(rounds)
        found = session.run(taken)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


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
