"""Sums that all workers add up."""

from __future__ import annotations

from unittest import mock

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.parts.summed import SummedOnPs, Sums
from ps_train.engine.transport.received_push import ReceivedPush
from ps_train.engine.variables.variables import zeros_variable

MANY = float(2**25)  # the next number of float32 is 4 more
"""A sum that float32 has no longer exactly."""


def test_sums_are_of_float64() -> None:
    with tf.Graph().as_default():
        sums = Sums(3)
        sums.update(lambda to_update: None)(mock.Mock())
        assert (sums.present.dtype, sums.present.shape) == (tf.float64, [3])


def test_single_examples_count_after_many() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        total, one = zeros_variable("total", tf.float64, [1]), tf.ones([1])
        push = ReceivedPush(0, (), (), sums=(one,))
        (added,) = SummedOnPs(total).judge(push).ended([])
        (in_round,) = SummedOnPs(total).in_round(0, 1)
        pending, finished = in_round.add(push, tf.constant(True)), in_round.finish()
        session.run(v1.global_variables_initializer())
        session.run(total.assign([MANY]))
        for op in (added, added, pending, finished):
            session.run(op)
        np.testing.assert_array_equal(session.run(total), [MANY + 3])
