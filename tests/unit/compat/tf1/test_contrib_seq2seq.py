"""The loss of sequences."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train.compat.tf1.contrib import make_contrib

CONTRIB = make_contrib(lambda: None)


@pytest.mark.parametrize(("times", "batch"), [(False, False), (True, False), (False, True), (True, True)])
def test_the_loss_of_sequences(run, times, batch):
    random = np.random.default_rng(1)
    logits, targets = random.normal(size=[2, 3, 4]), np.array([[0, 1, 2], [3, 0, 0]])
    weights = np.array([[1.0, 1, 0], [1, 0.5, 1]])
    loss = CONTRIB.seq2seq.sequence_loss(tf.constant(logits), tf.constant(targets), tf.constant(weights), times, batch)
    logged = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    crossed = -np.take_along_axis(logged, targets[:, :, None], 2)[:, :, 0] * weights
    axes = tuple(axis for axis, averaged in ((0, batch), (1, times)) if averaged)
    np.testing.assert_allclose(run(loss), crossed.sum(axes) / weights.sum(axes) if axes else crossed, rtol=1e-6)
