"""A function runs eagerly, whatever graph is the default one."""

from __future__ import annotations

import pytest
import tensorflow as tf

from ps_train.data.sent.eager import eagerly


def test_a_function_runs_eagerly_within_a_graph():
    with tf.Graph().as_default() as graph:
        assert eagerly(lambda: int(tf.constant(3))) == 3
        assert tf.compat.v1.get_default_graph() is graph
        assert graph.get_operations() == []
    assert eagerly(tf.executing_eagerly)


def test_an_exception_comes_through():
    with tf.Graph().as_default(), pytest.raises(KeyError, match="mine"):
        eagerly(lambda: {}["mine"])
