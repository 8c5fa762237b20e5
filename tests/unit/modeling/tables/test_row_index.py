"""Row of each id: ids of fields, hashed ids, and ids out of range."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.base.errors import ModelError
from ps_train.data.named_inputs import remember_inputs
from ps_train.data.stream import data_error
from ps_train.modeling.tables.row_index import splitmix64
from tests.support.graphs.lookups import evaluated, looked_up


def test_fields_of_a_list_of_sizes_have_rows_of_their_own_one_behind_the_other() -> None:
    found, table = looked_up([[0, 0, 0], [2, 1, 4]], rows=[3, 2, 5], dimension=2)
    assert table.shape == (10, 2)
    assert np.array_equal(found, table[[[0, 3, 5], [2, 4, 9]]])


@pytest.mark.parametrize("kind", [tf.int64, tf.int32, tf.string])
def test_hashed_ids_may_be_anything_and_spread_over_all_buckets(kind: tf.DType) -> None:
    values = np.arange(-2000, 2000)
    ids = values.astype(str) if kind == tf.string else values.astype(kind.as_numpy_dtype)
    found, table = looked_up(ids, hash_buckets=40, dimension=1)
    counts = (found[:, 0] == table).sum(axis=1)
    assert counts.sum() == 4000 and counts.min() > 50 and counts.max() < 150


def test_the_hash_of_numbers_is_that_of_splitmix() -> None:
    """The reference: the finalizer in Python's integers."""
    ids = [0, 1, -1, 2**40, -(2**62)]
    expected = []
    for x in ids:
        x %= 2**64
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        expected.append((x ^ (x >> 31)) % 2**63)
    assert evaluated(lambda: splitmix64(tf.constant(ids, tf.int64))).tolist() == expected


def test_an_id_out_of_range_is_an_error_that_names_table_field_id_and_example() -> None:
    for ids, sizes, which, highest in (
        ([[0, 1], [2, 2]], [3, 2], "id 2 in field 1 of example 1", 1),
        ([[0, 1], [2, -5]], 3, "id -5 in field 1 of example 1", 2),
        ([0, 7], 3, "id 7 in field 0 of example 1", 2),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            looked_up(ids, rows=sizes, dimension=2)
        told = str(data_error(caught.value))
        assert told.startswith(f"table table: {which} of the batch is out of range: allowed are 0 to {highest};"), told
        assert told.endswith("hash_buckets.")


def test_an_id_out_of_range_in_a_bag_names_its_example() -> None:
    def ids():
        return tf.RaggedTensor.from_row_splits(tf.constant([1, 2, 9]), tf.constant([0, 2, 2, 3]))

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        looked_up(ids, "sum", rows=5, dimension=2)
    assert "id 9 in field 0 of example 2 of the batch" in str(data_error(caught.value))


@pytest.mark.parametrize("rows", [5, [5]])
def test_batches_without_ids_are_in_range(rows) -> None:
    def bags():
        return tf.RaggedTensor.from_row_splits(tf.constant([], tf.int64), tf.constant([0, 0, 0]))

    if rows == 5:
        assert np.array_equal(looked_up(bags, "sum", rows=rows, dimension=2)[0], np.zeros([2, 2]))
    assert looked_up(np.zeros([0, 1], np.int64), rows=rows, dimension=2)[0].shape == (0, 1, 2)


def test_ids_out_of_range_get_the_default_row_of_their_field_if_so_wished() -> None:
    found, table = looked_up([[0, 1], [-1, 2], [3, 10**15]], rows=[3, 2], dimension=2, oov="default")
    assert table.shape == (7, 2)
    assert np.array_equal(found, table[[[0, 5], [3, 6], [3, 6]]])


def test_ids_out_of_range_get_one_of_the_rows_of_their_field_if_so_wished() -> None:
    ids = np.stack([np.arange(-50, 50), np.arange(-50, 50)], axis=1)
    found, table = looked_up(ids, rows=[3, 2], dimension=2, oov="hash")
    numbers = np.array([[np.flatnonzero((table == row).all(axis=1))[0] for row in rows] for rows in found])
    assert numbers[50:53, 0].tolist() == [0, 1, 2] and numbers[50:52, 1].tolist() == [3, 4]
    assert set(numbers[:, 0]) == {0, 1, 2} and set(numbers[:, 1]) == {3, 4}


def test_errors_about_ids_name_the_feature() -> None:
    with tf.Graph().as_default():
        names = {name: v1.placeholder(tf.int32, [None, width]) for name, width in (("city", 1), ("shops", 2))}
        names |= {"age": v1.placeholder(tf.float32, [None]), "word": v1.placeholder(tf.string, [None])}
        words = tf.RaggedTensor.from_row_splits(v1.placeholder(tf.int64, [None]), [0, 2])
        remember_inputs({**names, "words": words}, None)
        for name, message in (("age", r"ids of float32 \(feature age\)"), ("word", r"are strings \(feature word\)")):
            with pytest.raises(ModelError, match=message):
                embeddings.lookup("t", names[name], rows=4, dimension=1)
        with pytest.raises(ModelError, match=r"ids of float32 \(feature age\)"):
            embeddings.lookup("o", names["age"], capacity=4, dimension=1)
        with pytest.raises(ModelError, match=r"ids of shape \(None, 1\) \(feature city\), but has 2 sizes"):
            embeddings.lookup("t", names["city"], rows=[4, 4], dimension=1)
        looked_up = {
            "city": embeddings.lookup("a", names["city"][:, 0], rows=4, dimension=1),
            "shops": embeddings.lookup("b", names["shops"], rows=[4, 5], dimension=1),
            "words": embeddings.lookup("c", words, "sum", rows=4, dimension=1),
        }
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            feeds = {names["city"]: [[1], [9]], names["shops"]: [[1, 1], [1, 6]], words.values: [1, 8]}
            for name, message in (
                ("city", "table a: id 9 in feature city of example 1 of the batch"),
                ("shops", "table b: id 6 in field 1 of feature shops of example 1 of the batch"),
                ("words", "table c: id 8 in feature words of example 0 of the batch"),
            ):
                with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                    session.run(looked_up[name], feeds)
                assert str(data_error(caught.value)).startswith(message)
