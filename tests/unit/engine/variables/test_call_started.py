"""A value that is computed after every ps has begun its part of a call."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.step.effects import ancestors
from ps_train.engine.variables.call_started import after_all_started, start_signal
from ps_train.engine.variables.variables import ps_device
from tests.support.graphs.local import LocalSession


def signals(tensor: tf.Tensor) -> list[str]:
    """The devices of the signals that a tensor depends on."""
    return [op.device for op in ancestors([tensor.op]) if op.type == "Timestamp"]


@pytest.mark.parametrize("ps", [[], [0], [2, 0, 1]])
def test_a_value_waits_for_the_signal_of_each_ps_and_stays_as_it_is(ps: list[int]) -> None:
    with tf.Graph().as_default() as graph:
        with v1.device("/job:worker/replica:0/task:4"):
            value = after_all_started(tf.constant([3, 4]), iter(ps))
        assert signals(value) == [ps_device(index) for index in ps]
        assert value.device == "/job:worker/replica:0/task:4", "on the device of the caller"
        assert LocalSession(graph).run(value).tolist() == [3, 4]


def test_a_signal_is_computed_in_each_call() -> None:
    with tf.Graph().as_default() as graph:
        signal = start_signal(1)
        session = LocalSession(graph)
        assert signal.shape == [] and session.run(signal) < session.run(signal), "a constant would be the same"
