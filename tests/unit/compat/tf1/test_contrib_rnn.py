"""Cells and networks of tf.contrib.rnn."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train.compat.tf1.contrib import make_contrib

CONTRIB = make_contrib(lambda: None)


@pytest.mark.parametrize("lengths", [None, [3, 1]])
@pytest.mark.parametrize("use_peephole", [False, True])
def test_the_fused_lstm_is_the_lstm_cell_at_each_position(run, use_peephole, lengths):
    inputs = np.random.default_rng(1).normal(size=[3, 2, 4]).astype(np.float32)  # [positions, batch, values]
    fused = CONTRIB.rnn.LSTMBlockFusedCell(5, use_peephole=use_peephole)
    outputs, (cell, hidden) = fused(tf.constant(inputs), dtype=tf.float32, sequence_length=lengths)
    got = run([outputs, cell, hidden])
    names = {name.partition("/")[2]: value for name, value in run.values().items()}
    kernel, bias = names["kernel"], names["bias"]
    diagonals = [names.get(f"w_{gate}_diag", 0.0) for gate in "ifo"]

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    c = h = np.zeros([2, 5])
    wanted = []
    for t in range(3):
        i, new, f, o = np.split(np.concatenate([inputs[t], h], 1) @ kernel + bias, 4, 1)
        c_now = sigmoid(f + 1 + diagonals[1] * c) * c + sigmoid(i + diagonals[0] * c) * np.tanh(new)
        h_now = sigmoid(o + diagonals[2] * c_now) * np.tanh(c_now)
        live = np.array([[lengths is None or t < length] for length in (lengths or [3, 3])])
        c, h = np.where(live, c_now, c), np.where(live, h_now, h)
        wanted.append(np.where(live, h_now, 0))
    for value, right in zip(got, [np.array(wanted), c, h], strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-4, atol=1e-5)
