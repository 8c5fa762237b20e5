"""The shipped model of digits: its data and its layers."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.models.digits import Digits


def test_splits_are_pixels_between_0_and_1_with_their_digits() -> None:
    for split in ("train", "test"):
        data = Digits().data(split, "")
        assert data.features.shape[1:] == (64,) and 0 <= data.features.min() < data.features.max() <= 1
        assert {*data.labels.tolist()} == {*range(10)} and len(data.features) == len(data.labels)


def test_the_network_is_that_of_numpy_on_pixels_around_zero() -> None:
    pixels = Digits().data("test", "").features[:5].astype(np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        logits = Digits(hidden=7).forward(tf.constant(pixels), training=True)
        session.run(v1.global_variables_initializer())
        found = session.run(logits)
        w1, b1, w2, b2 = session.run(v1.trainable_variables())
    assert w1.shape == (64, 7) and w2.shape == (7, 10)
    np.testing.assert_allclose(found, np.maximum((2 * pixels - 1) @ w1 + b1, 0) @ w2 + b2, rtol=1e-4, atol=1e-5)
