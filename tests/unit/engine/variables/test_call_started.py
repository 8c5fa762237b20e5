"""A value comes after the start signals of all ps."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.variables import call_started
from ps_train.engine.variables.call_started import after_all_started, start_signal


def test_signals_are_on_their_ps_and_the_value_waits_for_all() -> None:
    with tf.Graph().as_default() as graph, tf.device("/job:worker/task:1"):
        value = after_all_started(tf.constant(7), [0, 2])
        signals = [op for op in graph.get_operations() if op.type == "Timestamp"]
        assert [tf.DeviceSpec.from_string(op.device).task for op in signals] == [0, 2]
        assert {tf.DeviceSpec.from_string(op.device).job for op in signals} == {"ps"}
        (joined,) = value.op.control_inputs
        assert [tensor.op for tensor in joined.inputs] == signals
        assert tf.DeviceSpec.from_string(value.device).job == "worker"


def test_without_ps_the_value_waits_for_nothing() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        value = after_all_started(tf.constant(7), [])
        assert value.op.control_inputs == [] and session.run(value) == 7


def test_a_signal_is_new_in_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_started, "ps_device", lambda ps: "")
    with tf.Graph().as_default(), v1.Session() as session:
        signal = start_signal(0)
        assert session.run(signal) < session.run(signal)
