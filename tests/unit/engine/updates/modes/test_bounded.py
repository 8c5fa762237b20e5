"""Clocks of replicas under bounded staleness, as pure functions."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf

from ps_train.engine.updates.modes.bounded import ReplicaClocks
from ps_train.engine.updates.modes.token_gate import NEVER


def vector(*values):
    return tf.constant(values, tf.int64)


def listed(state):
    return [value.numpy().tolist() for value in dataclasses.astuple(state)]


def me(index, count=3):
    return tf.constant(np.arange(count) == index)


class TestReplicaClocks:
    def test_the_slowest_is_looked_for_among_the_living(self):
        assert ReplicaClocks(vector(1, 0, 1), vector(5, 2, 7)).slowest().numpy() == 5
        assert ReplicaClocks(vector(0, 0, 0), vector(5, 2, 7)).slowest().numpy() == NEVER

    def test_a_step_is_counted(self):
        assert listed(ReplicaClocks(vector(1, 1, 1), vector(5, 2, 7)).visit(me(1))) == [[1, 1, 1], [5, 3, 7]]

    def test_a_replica_that_comes_back_begins_beside_the_slowest(self):
        assert listed(ReplicaClocks(vector(1, 0, 1), vector(5, 2, 7)).visit(me(1))) == [[1, 1, 1], [5, 5, 7]]
        assert listed(ReplicaClocks(vector(0, 0, 0), vector(5, 2, 7)).visit(me(1))) == [[0, 1, 0], [5, 7, 7]]

    def test_a_replica_that_leaves_keeps_its_count_but_holds_no_other_back(self):
        after = ReplicaClocks(vector(1, 1, 1), vector(5, 2, 7)).leave(me(1))
        assert listed(after) == [[1, 0, 1], [5, 2, 7]] and after.slowest().numpy() == 5

    def test_the_slowest_are_awaited_if_any_replica_is_too_far_ahead_of_them(self):
        clocks = ReplicaClocks(vector(1, 1, 1), vector(5, 2, 2))
        assert clocks.awaited(lead=2).numpy().tolist() == [False, True, True]
        assert not clocks.awaited(lead=3).numpy().any()
