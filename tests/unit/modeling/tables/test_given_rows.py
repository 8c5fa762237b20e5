"""Rows that a table begins with in a plain graph: row i is that of id i."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.modeling.tables.given_rows import given_rows, values_come_later
from ps_train.modeling.tables.table import Table
from tests.support.graphs.lookups import evaluated, looked_up

ROWS = 600
PRE = np.random.default_rng(3).normal(size=(ROWS, 2)).astype(np.float32)


@pytest.mark.parametrize("initializer", [PRE, v1.constant_initializer(PRE), lambda shape, dtype: tf.constant(PRE)])
def test_a_lookup_gives_row_i_to_id_i(initializer: Any) -> None:
    found, table = looked_up(np.arange(ROWS), rows=ROWS, dimension=2, initializer=initializer)
    assert np.array_equal(found, PRE) and np.array_equal(table, PRE)


def test_each_part_of_a_partitioned_variable_has_its_rows() -> None:
    def build():
        with v1.variable_scope("parts", partitioner=v1.fixed_size_partitioner(3)):
            return embeddings.lookup("t", tf.range(ROWS), rows=ROWS, dimension=2, initializer=PRE)

    assert np.array_equal(evaluated(build), PRE)


def test_a_graph_that_is_never_initialized_has_no_copy_of_the_rows() -> None:
    with tf.Graph().as_default() as graph, values_come_later():
        embeddings.lookup("t", tf.range(ROWS), rows=ROWS, dimension=2, initializer=PRE)
    written = graph.as_graph_def().SerializeToString()
    assert PRE[:5].tobytes() not in written and PRE[[100, 351]].tobytes() not in written


@pytest.mark.parametrize(
    "initializer",
    [
        None,
        0.5,
        np.float32(0.5),
        np.array(0.5),
        v1.constant_initializer([0.5]),
        tf.keras.initializers.Constant(0.5),
        v1.ones_initializer,
        v1.random_normal_initializer(seed=1),
        v1.glorot_uniform_initializer(),
        v1.orthogonal_initializer(),
        tf.keras.initializers.HeNormal(),
    ],
)
def test_constants_and_random_initializers_do_not_give_rows(initializer: Any) -> None:
    assert given_rows(Table("t", 2, rows=7, initializer=initializer)) is None
