"""The time that steps wait, as ps 0 counts it and as it is reported."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.counters.run_counters import RunCounters
from ps_train.engine.updates.modes.staleness import BINS
from ps_train.engine.updates.modes.wait_time import now_on_ps, record, report
from tests.support.graphs.local import LocalSession


def test_the_share_is_of_all_seconds_together_and_of_each_worker() -> None:
    waiting = np.array([[1.0, 4.0], [0.0, 8.0], [0.0, 0.0]])
    found = report(waiting, ["chief:0", "worker:0", "worker:1"])
    assert found == {"share": 0.0833, "per_worker": {"chief:0": 0.25, "worker:0": 0.0, "worker:1": 0.0}}
    assert report(np.zeros([1, 2]), ["worker:0"]) == {"share": 0.0, "per_worker": {"worker:0": 0.0}}


def test_each_step_adds_its_waiting_and_its_whole_time_to_its_replica() -> None:
    with tf.Graph().as_default() as graph:
        zeros = [v1.Variable(tf.zeros([], tf.int64), use_resource=True) for _ in range(3)]
        staleness = v1.Variable(tf.zeros([2, BINS], tf.int64), use_resource=True)
        waiting = v1.Variable(tf.zeros([2, 2], tf.float64), use_resource=True)
        counters = RunCounters(*zeros, staleness, waiting)
        times = [v1.placeholder(tf.float64, []) for _ in range(3)]
        done = record(counters, 1, *times)
        assert done.device == "/job:ps/replica:0/task:0/device:CPU:0"
        session = LocalSession(graph)
        for started, pushed, ended in ((100.0, 103.0, 104.0), (200.0, 200.5, 202.5)):
            session.run(done, dict(zip(times, (started, pushed, ended), strict=True)))
        np.testing.assert_allclose(session.run(waiting), [[0, 0], [3.0, 6.5]])


def test_the_time_is_that_of_ps_0_after_other_operations() -> None:
    with tf.Graph().as_default():
        first = tf.timestamp()
        now = now_on_ps([first.op])
        assert now.dtype == tf.float64 and first.op in now.op.control_inputs
        assert now.device == "/job:ps/replica:0/task:0/device:CPU:0"
