"""Tables from values to their positions."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.tf1.contrib_lookup import index_table_from_file, index_table_from_tensor


def test_a_table_maps_values_to_positions(run):
    table = index_table_from_tensor(["a", "b"])
    assert run(table.lookup(tf.constant(["b", "x", "a"]))).tolist() == [1, -1, 0]
    buckets = index_table_from_tensor(tf.constant(["a", "b"]), num_oov_buckets=1)
    assert run_new(buckets.lookup(tf.constant(["b", "x"]))) == [1, 2]
    numbers = index_table_from_tensor([10, 20], dtype=tf.int64, default_value=7)
    assert run_new(numbers.lookup(tf.constant([20, 30], tf.int64))) == [1, 7]
    with pytest.raises(ValueError, match="must be specified"):
        index_table_from_tensor(None)


def run_new(tensor):
    with v1.Session() as session:
        session.run(v1.tables_initializer())
        return session.run(tensor).tolist()


def test_a_table_maps_lines_of_a_file(run, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("red\ngreen\nblue\n")
    table = index_table_from_file(str(path), vocab_size=2, default_value=9)
    assert run(table.lookup(tf.constant(["green", "blue"]))).tolist() == [1, 9]
    (tmp_path / "numbers.txt").write_text("10,a\n20,b\n")
    numbers = index_table_from_file(
        str(tmp_path / "numbers.txt"), 1, key_dtype=tf.int32, key_column_index=0, delimiter=",", name="numbers"
    )
    assert run_new(numbers.lookup(tf.constant([20, 30]))) == [1, 2]
    with pytest.raises(TypeError, match="vocabulary_size"):
        index_table_from_file(str(path), vocabulary_size=2)
    with pytest.raises(ValueError, match="vocabulary_file"):
        index_table_from_file()
