"""The guards of a push, without servers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config.job import Job
from ps_train.engine.updates.gradients.push_guard import NOT_FINITE, after, finite_guard

INF = np.float32("inf")
SENT, SKIPPED = [2.0, 3.0, 0.0], [0.0, 0.0, 1.0]


@pytest.mark.parametrize("on_nan", ["stop", "skip"])
def test_without_a_scale_on_nan_decides(on_nan: str) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        guard = finite_guard(Job(on_nan=on_nan), tf.constant(1.0), [np.float32(SKIPPED)])
        assert session.run(guard([tf.constant([2.0, 3.0, 0.0])]))[0].tolist() == SENT
        bad = guard([tf.constant([2.0, INF, 0.0])])
        if on_nan == "skip":
            assert session.run(bad)[0].tolist() == SKIPPED
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
                session.run(bad)


def test_a_push_waits_for_the_updates_of_the_model() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        count = v1.get_variable("count", [], initializer=v1.zeros_initializer(), use_resource=True)
        session.run(count.initializer)
        guard = after([count.assign_add(1.0, read_value=False)], lambda vectors: vectors)
        assert session.run(guard([tf.constant([2.0])]))[0].tolist() == [2.0] and session.run(count) == 1
        same = after([], guard)
        assert same is guard
