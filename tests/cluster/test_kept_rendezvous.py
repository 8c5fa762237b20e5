"""Rendezvous that TensorFlow keeps for ever, counted from outside (docs/decisions/0038-kept-rendezvous.md)."""

from __future__ import annotations

import os

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.clusters.servers import POOL
from tests.trials.soak.kept_rendezvous import kept_in


def test_each_aborted_call_keeps_at_least_one():
    with tf.Graph().as_default() as graph:
        given = v1.placeholder(tf.float32, [])
        with tf.control_dependencies([v1.Assert(given > 0, ["not positive"])]):
            checked = tf.identity(given)
    session = POOL.session(POOL.take(1)[0].target, graph, v1.ConfigProto())
    session.run(checked, {given: 1.0})
    before = kept_in(os.getpid())
    assert before is not None, "TensorFlow has renamed its list: the soak test cannot tell what grows"
    for _ in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(checked, {given: -1.0})
    after = kept_in(os.getpid())
    assert after is not None and after - before >= 3


def test_a_process_that_is_not_there_cannot_be_asked():
    assert kept_in(1 << 30) is None
