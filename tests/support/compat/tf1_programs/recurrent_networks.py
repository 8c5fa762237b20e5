"""Recurrent networks over whole sequences, in one direction and in both, equal the cell's steps."""

import numpy as np
import tensorflow as tf
from tensorflow.contrib import rnn

from tests.support.compat.tf1_refusals import refused

BATCH, POSITIONS, VALUES, UNITS = 3, 4, 2, 3
random = np.random.RandomState(0)
x = random.normal(size=[BATCH, POSITIONS, VALUES]).astype(np.float32)
lengths = np.array([4, 2, 1])


def weights(shape, dtype=tf.float32, partition_info=None):
    return tf.constant(np.sin(np.arange(np.prod(shape))).reshape(shape), dtype)


def steps(values, ends):
    """Returns the outputs and the last states of a BasicRNNCell over [batch, positions, values]."""
    width = values.shape[2]
    kernel = np.sin(np.arange((width + UNITS) * UNITS)).reshape(width + UNITS, UNITS)
    outputs, state = np.zeros([BATCH, POSITIONS, UNITS]), np.zeros([BATCH, UNITS])
    for position in range(POSITIONS):
        new = np.tanh(np.concatenate([values[:, position], state], 1) @ kernel)
        alive = (position < ends)[:, None]
        state = np.where(alive, new, state)
        outputs[:, position] = np.where(alive, new, 0)
    return outputs, state


def reversed_to(values, ends):
    return np.stack([np.concatenate([row[:end][::-1], row[end:]]) for row, end in zip(values, ends, strict=True)])


def both(values):
    ahead = steps(values, lengths)
    back = steps(reversed_to(values, lengths), lengths)
    return np.concatenate([ahead[0], reversed_to(back[0], lengths)], 2), ahead[1], back[1]


def run(*tensors):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(tensors)


def check(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5)


with tf.variable_scope("dynamic", initializer=weights):
    outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicRNNCell(UNITS), x, lengths, dtype=tf.float32)
    for found, expected in zip(run(outputs, state), steps(x, lengths), strict=True):
        check(found, expected)
    assert [variable.op.name for variable in tf.global_variables()] == [
        "dynamic/rnn/basic_rnn_cell/kernel",
        "dynamic/rnn/basic_rnn_cell/bias",
    ]

with tf.variable_scope("static", initializer=weights):
    listed = tf.unstack(tf.constant(x), axis=1)
    outputs, state = rnn.static_rnn(rnn.BasicRNNCell(UNITS), listed, dtype=tf.float32, sequence_length=lengths)
    found = run(tf.stack(outputs, 1), state)
    for one, expected in zip(found, steps(x, lengths), strict=True):
        check(one, expected)

with tf.variable_scope("two", initializer=weights):
    ways = [rnn.BasicRNNCell(UNITS), rnn.BasicRNNCell(UNITS)]
    outputs, states = tf.nn.bidirectional_dynamic_rnn(*ways, tf.constant(x), lengths, dtype=tf.float32)
    for found, expected in zip(run(tf.concat(outputs, 2), *states), both(x), strict=True):
        check(found, expected)

with tf.variable_scope("deep", initializer=weights):
    cells = [[rnn.BasicRNNCell(UNITS) for _ in range(2)] for _ in range(2)]
    found = rnn.stack_bidirectional_dynamic_rnn(*cells, tf.constant(x), dtype=tf.float32, sequence_length=lengths)
    below = both(x)
    above = both(below[0])
    outputs, ahead, back = run(*found)
    check(outputs, above[0])
    check(ahead, [below[1], above[1]])
    check(back, [below[2], above[2]])
    name = "deep/stack_bidirectional_rnn/cell_1/bidirectional_rnn/bw/basic_rnn_cell/kernel"
    assert name in [variable.op.name for variable in tf.global_variables()]

with tf.variable_scope("listed", initializer=weights):
    cells = [[rnn.BasicRNNCell(UNITS) for _ in range(2)] for _ in range(2)]
    outputs, ahead, back = rnn.stack_bidirectional_rnn(*cells, listed, dtype=tf.float32, sequence_length=lengths)
    check(run(tf.stack(outputs, 1))[0], above[0])

assert refused("rnn.stack_bidirectional_dynamic_rnn([cell], [], x)", rnn=rnn, cell=None, x=x) == (
    "cells_bw has 0 entries, and cells_fw has 1: give one for each layer"
)
assert "use tf.layers.dense" in refused("from tensorflow.contrib.rnn.python.ops.core_rnn_cell import _Linear")
assert "use the cells of tf.nn.rnn_cell" in refused("from tensorflow.contrib.rnn import NASCell")
