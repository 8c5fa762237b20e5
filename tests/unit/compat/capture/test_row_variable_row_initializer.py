"""Rows are initialized as the whole variable is."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.capture.row_variable import row_initializer

SHAPE = [4000, 8]
INITIALIZERS = {
    "none": None,
    "zeros": v1.zeros_initializer(),
    "glorot uniform": v1.glorot_uniform_initializer(),
    "glorot normal": v1.glorot_normal_initializer(),
    "he": v1.initializers.he_normal(),
    "lecun": v1.initializers.lecun_uniform(),
    "untruncated": v1.variance_scaling_initializer(2.0, "fan_out", "untruncated_normal"),
    "truncated": v1.truncated_normal_initializer(0.5, 0.1),
    "uniform": v1.random_uniform_initializer(-1, 2),
}


@pytest.mark.parametrize("name", INITIALIZERS)
def test_any_rows_have_the_distribution_of_the_whole(name: str) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        tf.random.set_seed(1)  # the largest of 32,000 normal numbers differs by more than a fifth now and then
        found = session.run(row_initializer(INITIALIZERS[name], SHAPE)([1000, 8], dtype=tf.float32))
        whole = v1.get_variable("w", SHAPE, initializer=INITIALIZERS[name])
        session.run(whole.initializer)
        expected = session.run(whole)
    assert found.mean() == pytest.approx(expected.mean(), abs=0.05 * max(float(expected.std()), 0.01))
    assert found.std() == pytest.approx(expected.std(), rel=0.05, abs=1e-9)
    assert np.abs(found).max() <= np.abs(expected).max() * 1.2 + 1e-9


@pytest.mark.parametrize("initializer", [v1.orthogonal_initializer(), lambda shape, dtype, partition_info: None])
def test_an_initializer_that_needs_all_rows_has_none(initializer: object) -> None:
    assert row_initializer(initializer, SHAPE) is None
