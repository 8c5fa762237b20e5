"""Impossible uses of tables are refused, when the graph is built or when the batch is there."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.base.errors import ConfigError, DataError, ModelError
from tests.support.clusters.cluster import InProcessCluster
from tests.support.clusters.loops import SharedBudget, run_worker
from tests.support.long import long
from tests.support.models.refused_tables import Table, built


def test_an_optimizer_that_rewrites_whole_tables_is_refused_with_the_name_of_the_table_and_of_the_operation() -> None:
    with pytest.raises(ModelError, match=r"all rows of table ads/part_0 .*AssignSubVariableOp.*use .*lazy_adam"):
        built(Table(), optimizer="adam")


def test_a_table_that_is_used_whole_is_refused_with_the_name_of_the_operation() -> None:
    def regularised(rows, features):
        with v1.variable_scope(v1.get_variable_scope(), reuse=True):
            return rows + 0.01 * tf.reduce_sum(tf.square(v1.get_variable("ads", [10, 2])), name="penalty")

    with pytest.raises(ModelError, match=r"table ads is used whole by Square \(Square\).*embeddings.lookup"):
        built(Table(regularised))


def test_ids_that_depend_on_rows_are_refused() -> None:
    def twice(rows, features):
        return embeddings.lookup("second", tf.cast(rows[:, 0] > 0, tf.int64), rows=2, dimension=2)

    with pytest.raises(ModelError, match="table second is looked up with ids that depend on rows"):
        built(Table(twice))


def test_a_lookup_inside_of_a_condition_is_refused() -> None:
    def conditional(rows, features):
        def more():
            return embeddings.lookup("second", features, rows=10, dimension=2)

        return rows + tf.cond(tf.reduce_sum(features) > 0, more, lambda: rows)

    with pytest.raises((ModelError, ValueError), match="second"):
        built(Table(conditional))


def test_accumulated_batches_are_refused() -> None:
    with pytest.raises(ConfigError, match="accumulate=3 is not possible with tables"):
        built(Table(), accumulate=3)


@pytest.mark.parametrize("num_ps", [long(1), 2])
def test_an_id_out_of_range_ends_the_job_with_a_line_that_names_table_field_id_and_example(num_ps: int) -> None:
    cluster = InProcessCluster(Table(largest=10), num_ps, 1, optimizer="sgd", batch_size=8)
    cluster.start()
    with pytest.raises(DataError, match=r"^table ads: id 10 in features of example 2 of the batch is out of range: .*"):
        run_worker(cluster, 0, SharedBudget(100), lambda: False)
    assert cluster.global_step() == 1, "the second batch is the bad one"


@pytest.mark.long
@pytest.mark.parametrize("oov", ["default", "hash"])
def test_an_id_out_of_range_trains_a_row_if_so_wished(oov: str) -> None:
    cluster = built(Table(largest=19, oov=oov))
    cluster.start()
    before = cluster.values()["ads"]
    cluster.train(3)
    after = cluster.values()["ads"]
    assert len(after) == 10 + (oov == "default")
    assert (after != before).any(axis=1).all(), "every row was used"
