"""Time that steps wait for others: its sums, and the shares that are shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.modes import wait_time
from ps_train.engine.updates.modes.wait_time import record, report


def test_shares_are_those_of_all_steps_and_of_each_worker() -> None:
    waiting = np.array([[1.0, 10.0], [3.0, 10.0], [0.0, 0.0]])
    found = report(waiting, ["worker:0", "worker:1", "worker:2"])
    assert found == {"share": 0.2, "per_worker": {"worker:0": 0.1, "worker:1": 0.3, "worker:2": 0.0}}


def test_without_a_step_nothing_was_waited_for() -> None:
    assert report(np.zeros([1, 2]), ["worker:0"]) == {"share": 0.0, "per_worker": {"worker:0": 0.0}}


def test_a_step_adds_its_wait_and_its_duration_to_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_time, "ps_device", lambda ps: "")
    with tf.Graph().as_default(), v1.Session() as session:
        waiting = v1.get_variable("waiting", [2, 2], tf.float64, v1.zeros_initializer(), use_resource=True)

        class Counters:
            pass

        counters: Any = Counters()
        counters.waiting = waiting
        times = [tf.constant(one, tf.float64) for one in (100.0, 103.0, 107.5)]
        step = record(counters, 1, *times)
        session.run(waiting.initializer)
        session.run(step)
        session.run(step)
        np.testing.assert_array_equal(session.run(waiting), [[0, 0], [9.0, 15.0]])
