"""The variables on the ps that a replica's graph uses: each on its ps, under its name."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.engine.step.ps_state import make_ps_state
from ps_train.engine.updates.modes.asynchronous import Asynchronous
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.updates.modes.staleness import BINS
from ps_train.engine.variables.variables import ps_index
from tests.support.graphs.local import LocalSession
from tests.support.graphs.steps import spec_of
from tests.support.models.small import Linear


class Looked(Linear):
    def forward(self, features, training):
        ids = tf.cast(features[:, 0] * 10, tf.int64)
        rows = embeddings.lookup("users", ids, capacity=700, dimension=2)
        return super().forward(features, training) + tf.reduce_sum(rows, 1)


def test_counts_versions_variables_and_counters_are_on_their_ps() -> None:
    spec = spec_of(Looked(), 3)
    with tf.Graph().as_default() as graph:
        state = make_ps_state(spec, Asynchronous(), Replica(1, 4, 2))
        assert state.global_step is state.update_counts[0] is v1.train.get_global_step()
        assert [ps_index(one) for one in state.update_counts] == [0, 1, 2]
        assert [one.op.name for one in state.update_counts] == ["global_step", "ps_train/clock_1", "ps_train/clock_2"]
        places = {piece.name: piece.ps for piece in spec.plan.slices}
        assert {name: ps_index(one) for name, one in state.variables.items()} == places
        counters = vars(state.counters)
        assert {ps_index(one) for one in counters.values()} == {0}
        assert {name: (one.dtype.name, one.shape.as_list()) for name, one in counters.items()} == {
            "examples": ("float64", []),
            "skipped": ("int64", []),
            "dropped": ("int64", []),
            "staleness": ("int64", [4, BINS]),
            "waiting": ("float64", [4, 2]),
        }
        set_count = state.update_counts[2].assign(7, read_value=False)
        session = LocalSession(graph)
        session.run(set_count)
        assert session.run(state.versions) == [0, 0, 7]
        assert not any(np.any(value) for value in session.run(counters).values())


def test_each_slice_of_an_open_vocabulary_has_its_own_and_only_large_tables_keep_old_rows() -> None:
    spec = spec_of(Looked(), 2)
    with tf.Graph().as_default():
        state = make_ps_state(spec, Asynchronous(), Replica(0, 1, 1))
    assert set(state.vocabularies) == {"users/part_0", "users/part_1"}
    assert state.keeps_rows == frozenset()
