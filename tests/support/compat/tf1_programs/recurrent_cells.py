"""The cells of tf.contrib.rnn and tf.nn.rnn_cell compute what their equations say."""

import numpy as np
import tensorflow as tf
import tensorflow.contrib.rnn as contrib_rnn
import tensorflow.nn.rnn_cell as cells
from tensorflow.contrib import rnn
from tensorflow.contrib.rnn import BasicLSTMCell
from tensorflow.nn import rnn_cell

assert rnn is contrib_rnn is tf.contrib.rnn and rnn_cell is cells is tf.nn.rnn_cell
assert BasicLSTMCell is tf.nn.rnn_cell.BasicLSTMCell and rnn.LSTMStateTuple is cells.LSTMStateTuple

UNITS = 3
random = np.random.RandomState(0)
x, h, c = (random.normal(size=[2, size]).astype(np.float32) for size in (4, UNITS, UNITS))


def sigmoid(value):
    return 1 / (1 + np.exp(-value))


def weights(shape, dtype=tf.float32, partition_info=None):
    return tf.constant(np.sin(np.arange(np.prod(shape))).reshape(shape), dtype)


def product(rows, columns, bias):
    """Returns the function of inputs and state, joined, that the weights above make."""
    kernel = np.sin(np.arange(rows * columns)).reshape(rows, columns)
    return lambda *values: np.concatenate(values, 1) @ kernel + bias


def outputs_of(cell, *state):
    with tf.Graph().as_default(), tf.variable_scope("net", initializer=weights):
        made = cell()
        given = state[0] if len(state) == 1 else rnn.LSTMStateTuple(*state)
        output, last = made(tf.constant(x), given)
        assert made.output_size == UNITS and output.shape == [2, UNITS]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            return session.run([output, last])


def lstm(forget_bias=1.0):
    i, j, f, o = np.split(product(4 + UNITS, 4 * UNITS, 0)(x, h), 4, axis=1)
    new = sigmoid(f + forget_bias) * c + sigmoid(i) * np.tanh(j)
    return np.tanh(new) * sigmoid(o), new


output, last = outputs_of(lambda: rnn.BasicRNNCell(UNITS), h)
np.testing.assert_allclose(output, np.tanh(product(4 + UNITS, UNITS, 0)(x, h)), atol=1e-5)

for make in (lambda: rnn.BasicLSTMCell(UNITS), lambda: cells.LSTMCell(UNITS), lambda: rnn.LSTMBlockCell(UNITS)):
    output, last = outputs_of(make, c, h)
    np.testing.assert_allclose(output, lstm()[0], atol=1e-5)
    np.testing.assert_allclose(last.c, lstm()[1], atol=1e-5)

output, last = outputs_of(lambda: rnn.GRUCell(UNITS), h)
kernel = np.sin(np.arange((4 + UNITS) * 2 * UNITS)).reshape(4 + UNITS, 2 * UNITS)
r, u = np.split(sigmoid(np.concatenate([x, h], 1) @ kernel + 1), 2, axis=1)  # the bias of gates begins at 1
expected = u * h + (1 - u) * np.tanh(product(4 + UNITS, UNITS, 0)(x, r * h))
np.testing.assert_allclose(output, expected, atol=1e-5)

kept = outputs_of(lambda: rnn.DropoutWrapper(rnn.BasicLSTMCell(UNITS), output_keep_prob=1.0, state_keep_prob=1.0), c, h)
np.testing.assert_allclose(kept[0], lstm()[0], atol=1e-5)
dropped = outputs_of(lambda: rnn.DropoutWrapper(rnn.BasicLSTMCell(UNITS), output_keep_prob=0.5, seed=3), c, h)[0]
assert np.all(np.isclose(dropped, 0) | np.isclose(dropped, 2 * lstm()[0], atol=1e-5)) and np.any(dropped == 0)

with tf.Graph().as_default(), tf.variable_scope("net", initializer=weights):
    stack = rnn.MultiRNNCell([rnn.BasicLSTMCell(UNITS), rnn.ResidualWrapper(rnn.BasicRNNCell(UNITS))])
    output, state = stack(tf.constant(x), (rnn.LSTMStateTuple(c, h), tf.constant(h)))
    names = {variable.op.name for variable in tf.global_variables()}
    assert names == {
        f"net/multi_rnn_cell/{cell}/{part}"
        for cell in ("cell_0/basic_lstm_cell", "cell_1/basic_rnn_cell")
        for part in ("kernel", "bias")
    }
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        inner = lstm()[0]
        np.testing.assert_allclose(
            session.run(output), np.tanh(product(2 * UNITS, UNITS, 0)(inner, h)) + inner, atol=1e-5
        )
