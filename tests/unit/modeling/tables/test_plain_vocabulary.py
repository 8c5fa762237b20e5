"""An open vocabulary in a plain graph: its variables are made once, and its index is built after a restore."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE, plain_vocabulary
from ps_train.modeling.tables.table import Table
from tests.support.graphs.vocabularies import keys_of

TABLE = Table("users", 2, capacity=600, expire_steps=5)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_its_variables_are_of_the_current_scope_and_made_once() -> None:
    with v1.variable_scope("outer"):
        index = plain_vocabulary("outer/users", TABLE, 2)
    assert plain_vocabulary("outer/users", TABLE, 2) is index
    assert {variable.op.name: variable.shape.as_list() for variable in v1.global_variables()} == {
        "outer/users/keys": [742, 2],
        "outer/users/used": [742, 3],
        "outer/users/clock": [2],
    }
    assert not v1.trainable_variables() and {one.dtype for one in v1.global_variables()} == {tf.int64}
    assert len(v1.get_collection(AFTER_RESTORE)) == 1
    assert plain_vocabulary("others", Table("others", 2, capacity=5), 1) is not index
    assert len(v1.get_collection(AFTER_RESTORE)) == 2


def test_ids_are_found_after_the_restore_and_expire_by_their_group() -> None:
    index = plain_vocabulary("users", TABLE, 1)
    found = index.find(tf.constant(keys_of([7, 8, 9])))
    keys, used, clock = np.zeros([742, 1], np.int64), np.zeros([742, 3], np.int64), np.int64([10, 3])
    for row, number in ((2, 7), (370, 8), (371, 9)):  # two groups of 371 rows
        keys[row], used[row] = number, [1, 3, 3]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for variable, value in zip(v1.global_variables(), (keys, used, clock), strict=True):
            variable.load(value, session)
        assert session.run(found.row).tolist() == [-1, -1, -1]
        session.run(v1.get_collection(AFTER_RESTORE))
        assert session.run(found.row).tolist() == [2, 370, 371]
        assert session.run(found.alive).tolist() == [False, False, True]


def test_vocabularies_of_two_graphs_in_one_process_share_nothing(graph: tf.Graph) -> None:
    def shared_names(graph: tf.Graph) -> set[bytes]:
        tables = [op for op in graph.get_operations() if op.type == "MutableHashTableV2"]
        return {op.get_attr("shared_name") for op in tables}

    plain_vocabulary("users", TABLE, 1)
    with tf.Graph().as_default() as other:
        plain_vocabulary("users", TABLE, 1)
    assert len(shared_names(graph)) == len(shared_names(other)) == 1
    assert not shared_names(graph) & shared_names(other)
