"""Batches of one size."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ps_train.data.batching import ONE_SIZE


def test_examples_are_cut_into_batches_with_their_ranges() -> None:
    x = np.arange(14).reshape(7, 2)
    found = ONE_SIZE.cut(
        {"x": tf.constant(x)}, tf.constant(7, tf.int64), 3, lambda batch, first, after: (batch["x"], first, after)
    )
    batches = [(batch.numpy().tolist(), int(first), int(after)) for batch, first, after in found]
    assert batches == [(x[0:3].tolist(), 0, 3), (x[3:6].tolist(), 3, 6), (x[6:].tolist(), 6, 9)]


def test_pieces_are_batches_already() -> None:
    pieces = tf.data.Dataset.range(3)
    assert ONE_SIZE.joined(pieces) is pieces and ONE_SIZE.ahead
