"""Recurrent networks of TensorFlow 1."""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl

from tests.support.models.zoo.shape import Shape, dense


def parts_of(x):
    return tf.reshape(x, [-1, 3, 2])


def dynamic_rnn(x):
    lengths = 1 + tf.cast(x[:, 0] > 0, tf.int32)
    _, state = v1.nn.dynamic_rnn(rnn_cell_impl.LSTMCell(3), parts_of(x), sequence_length=lengths, dtype=tf.float32)
    return dense(state.h, 1)


def bidirectional_rnn(x):
    cells = [rnn_cell_impl.GRUCell(3) for _ in range(2)]
    outputs, _ = v1.nn.bidirectional_dynamic_rnn(*cells, parts_of(x), dtype=tf.float32)
    return dense(tf.reduce_mean(tf.concat(outputs, 2), 1), 1)


def static_rnn(x):
    cell = rnn_cell_impl.MultiRNNCell([rnn_cell_impl.BasicRNNCell(3), rnn_cell_impl.BasicLSTMCell(2)])
    outputs, _ = v1.nn.static_rnn(cell, tf.unstack(parts_of(x), axis=1), dtype=tf.float32)
    return dense(outputs[-1], 1)


SHAPES = [
    Shape(dynamic_rnn),
    Shape(dynamic_rnn, control_flow=1, name="dynamic_rnn_v1"),
    Shape(bidirectional_rnn, joined=True),
    Shape(static_rnn, joined=True),
]
