"""A step whose loss is scaled: what it pushes, and its next scale."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config.job import Job
from ps_train.engine.step.backward import Computed
from ps_train.engine.step.parts.loss_scaling import FIRST, LossScale, judged
from ps_train.engine.updates.gradients.push_guard import NOT_FINITE, after, finite_guard, skipping
from ps_train.engine.variables.worker_state import OWN, collect_local_state

INF, NAN = np.float32("inf"), np.float32("nan")
EMPTY = [np.float32([0, 0, 1]), np.zeros((), np.float32)]
"""The replacement of two vectors: one with a header, one of any length."""


def pushed(on_nan: str, loss: float, gradient: float, scale: float = FIRST) -> tuple[list[list[float]], float]:
    """The sent vectors, and the next scale; a transform has hidden what the gradient was."""
    with tf.Graph().as_default(), v1.Session() as session:
        state = LossScale()
        session.run(collect_local_state().initializers)
        session.run(v1.get_collection(OWN)[0].assign(scale))
        given = [tf.constant([1.0, gradient]), tf.constant([0.5])]
        loss, zero = tf.constant(np.float32(loss)), tf.zeros([])
        gradients = dict(zip("ab", given, strict=True))
        found = judged(Computed(loss, gradients, {}, {}, {}, zero, {}, [], loss), state)
        guard = skipping(found.skipped, EMPTY, finite_guard(Job(on_nan=on_nan), found.judged, EMPTY))
        guard = after(found.updates, guard)
        sent = session.run(guard([tf.constant([2.0, 3.0, 0.0]), tf.constant([4.0, 5.0])]))
        return [vector.tolist() for vector in sent], float(session.run(state.present))


SENT, SKIPPED = [[2.0, 3.0, 0.0], [4.0, 5.0]], [[0.0, 0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("on_nan", ["stop", "skip"])
@pytest.mark.parametrize("gradient", [INF, -INF, NAN])
def test_an_overflow_is_skipped_and_halves_the_scale_whatever_on_nan_is(on_nan: str, gradient: float) -> None:
    assert pushed(on_nan, 1.0, 1.0) == (SENT, FIRST)
    assert pushed(on_nan, 1.0, gradient) == (SKIPPED, FIRST / 2)


@pytest.mark.parametrize(("loss", "gradient", "scale"), [(1.0, INF, 1.0), (NAN, 1.0, FIRST), (INF, NAN, FIRST)])
def test_an_overflow_at_scale_one_and_a_loss_that_is_not_finite_are_for_on_nan(loss, gradient, scale) -> None:
    assert pushed("skip", loss, gradient, scale) == (SKIPPED, scale)
    with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE):
        pushed("stop", loss, gradient, scale)
