"""An open vocabulary in a plain graph: one index for a table, rebuilt after a restore."""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.embeddings import Table
from ps_train.modeling.tables.plain_vocabulary import AFTER_RESTORE, plain_vocabulary

TABLE = Table("t", dimension=2, capacity=32)


def test_a_table_has_one_index_whose_rows_are_those_of_the_restored_variables() -> None:
    with tf.Graph().as_default() as graph, v1.Session() as session:
        index = plain_vocabulary("t", TABLE, width=1)
        assert plain_vocabulary("t", TABLE, width=1) is index
        assert plain_vocabulary("u", Table("u", dimension=2, capacity=32), width=1) is not index
        variables = {variable.op.name: variable for variable in v1.global_variables()}
        assert sorted(variables) == sorted(f"{name}/{part}" for name in "tu" for part in ("keys", "used", "clock"))
        assert not v1.trainable_variables()
        row = index.find(tf.constant([[7]], tf.int64)).row
        session.run(v1.global_variables_initializer())
        session.run(variables["t/keys"].scatter_nd_update([[5]], [[7]]))
        session.run(variables["t/used"].scatter_nd_update([[5]], [[1, 1, 1]]))
        assert session.run(row).tolist() == [-1]
        rebuild = graph.get_collection(AFTER_RESTORE)
        assert len(rebuild) == 2
        session.run(rebuild)
        assert session.run(row).tolist() == [5]


def test_vocabularies_of_two_graphs_do_not_share_rows() -> None:
    for restores in (True, False):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            index = plain_vocabulary("t", TABLE, width=1)
            row = index.find(tf.constant([[0]], tf.int64)).row
            session.run(v1.global_variables_initializer())
            used = next(one for one in v1.global_variables() if one.op.name == "t/used")
            if restores:
                session.run(used.scatter_nd_update([[3]], [[1, 1, 1]]))
                session.run(graph.get_collection(AFTER_RESTORE))
            assert session.run(row).tolist() == ([3] if restores else [-1])
