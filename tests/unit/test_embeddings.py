"""Tables as a plain graph has them: which row an id is, how rows are combined, what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1
from hypothesis import given, settings
from hypothesis import strategies as st

from ps_train import embeddings
from ps_train.data.stream import data_error
from ps_train.embeddings.lookups import Declaration
from ps_train.embeddings.row_index import splitmix64
from ps_train.embeddings.row_order import initial_rows, numbers_at, positions_of
from ps_train.errors import ModelError


def evaluated(build: Callable[[], Any]) -> Any:
    with tf.Graph().as_default(), v1.Session() as session:
        found = build()
        session.run(v1.global_variables_initializer())
        return session.run(found)


def looked_up(ids: Any, *args: Any, **kwargs: Any) -> tuple[np.ndarray, np.ndarray]:
    """What a lookup gives, and the table in the order of its row numbers."""

    def build():
        found = embeddings.lookup("table", ids() if callable(ids) else tf.constant(ids), *args, **kwargs)
        (variable,) = v1.global_variables()
        return found, variable

    found, table = evaluated(build)
    return found, table[positions_of(np.arange(len(table)), len(table))]


@given(st.integers(1, 5000))
def test_every_row_has_a_position_of_its_own(total: int) -> None:
    positions = positions_of(np.arange(total), total)
    assert np.array_equal(np.sort(positions), np.arange(total))
    assert np.array_equal(numbers_at(positions, total), np.arange(total))
    with tf.init_scope():
        assert np.array_equal(positions_of(tf.range(total, dtype=tf.int64), total), positions)


def test_positions_of_the_largest_table_are_those_of_the_formula() -> None:
    total = 2**31 - 1
    numbers = np.array([0, 1, 250, 251, total // 2, total - 1])
    positions = positions_of(numbers, total)
    assert np.array_equal(numbers_at(positions, total), numbers) and (positions < total).all()
    assert positions[3] == positions[0] + 1, "the next one on the same heap"


@pytest.mark.parametrize(("ids", "shape"), [([3, 0, 9], (3, 4)), ([[3, 0], [9, 9]], (2, 2, 4))])
def test_without_a_combiner_every_id_gives_its_row(ids: list, shape: tuple[int, ...]) -> None:
    found, table = looked_up(ids, rows=10, dimension=4)
    assert found.shape == shape
    assert np.array_equal(found, table[np.array(ids)])
    assert len(np.unique(table, axis=0)) == 10


def test_fields_of_a_list_of_sizes_have_rows_of_their_own_one_behind_the_other() -> None:
    found, table = looked_up([[0, 0, 0], [2, 1, 4]], rows=[3, 2, 5], dimension=2)
    assert table.shape == (10, 2)
    assert np.array_equal(found, table[[[0, 3, 5], [2, 4, 9]]])


bags = st.lists(
    st.lists(st.tuples(st.integers(0, 6), st.floats(0.125, 4, width=32)), max_size=5), min_size=1, max_size=6
)


@pytest.mark.parametrize("kind", ["ragged", "sparse"])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@settings(max_examples=6, deadline=None)
@given(bags=bags, weighted=st.booleans())
def test_bags_are_combined_as_numpy_does(kind: str, combiner: str, bags: list, weighted: bool) -> None:
    ids = tf.ragged.constant([[i for i, _ in bag] for bag in bags], dtype=tf.int64, ragged_rank=1)
    weights = tf.ragged.constant([[w for _, w in bag] for bag in bags], dtype=tf.float32, ragged_rank=1)
    arrays = [ids.values.numpy(), ids.row_splits.numpy(), weights.values.numpy()]

    def build():
        splits = tf.constant(arrays[1])
        ragged = tf.RaggedTensor.from_row_splits(tf.constant(arrays[0]), splits)
        of_weights = tf.RaggedTensor.from_row_splits(tf.constant(arrays[2]), splits)
        if kind == "sparse":
            ragged, of_weights = ragged.to_sparse(), of_weights.to_sparse()
        table = embeddings.Table("table", rows=7, dimension=3)
        found = embeddings.lookup(table, ragged, combiner, of_weights if weighted else None)
        return found, v1.global_variables()[0]

    found, table = evaluated(build)
    expected = np.zeros([len(bags), 3])
    for row, bag in zip(expected, bags, strict=True):
        w = np.array([w if weighted else 1.0 for _, w in bag])
        rows = table[positions_of(np.array([i for i, _ in bag], np.int64), 7)]
        if bag:
            row += (w @ rows) / {"sum": 1, "mean": w.sum(), "sqrtn": np.sqrt((w**2).sum())}[combiner]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_dense_bags_are_combined_too() -> None:
    found, table = looked_up([[1, 1, 4]], "mean", [[1.0, 1.0, 2.0]], rows=5, dimension=2)
    np.testing.assert_allclose(found, [(2 * table[1] + 2 * table[4]) / 4], rtol=1e-6)


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

    with pytest.raises(tf.errors.InvalidArgumentError, match="id 9 in field 0 of example 2 of the batch"):
        looked_up(ids, "sum", rows=5, dimension=2)


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


INITIALIZERS = {
    "nothing": None,
    "a number": 0.25,
    "uniform": v1.random_uniform_initializer(-2, 3),
    "normal": v1.random_normal_initializer(1.0, 0.5),
    "truncated": tf.keras.initializers.TruncatedNormal(1.0, 0.5),
    "zeros": v1.zeros_initializer(),
    "a class": v1.ones_initializer,
}


def int64(number: int) -> tf.Tensor:
    return tf.constant(number, tf.int64)


@pytest.mark.parametrize("dimension", [1, 3, 8])
@pytest.mark.parametrize("name", INITIALIZERS)
def test_a_range_of_rows_begins_like_the_whole_table_does_there(name: str, dimension: int) -> None:
    def rows(begin, count, seed=7):
        return evaluated(lambda: initial_rows(INITIALIZERS[name], begin, count, dimension, seed))

    whole = rows(0, 1003)
    for begin, count in ((0, 10), (335, 334), (1002, 1)):
        assert np.array_equal(rows(begin, count), whole[begin : begin + count])
        found = evaluated(lambda b=begin, c=count: initial_rows(INITIALIZERS[name], int64(b), int64(c), dimension, 7))
        assert np.array_equal(found, whole[begin : begin + count])
    if name in ("uniform", "normal", "truncated", "nothing"):
        assert not np.array_equal(whole, rows(0, 1003, seed=8))


def test_initial_values_have_the_distribution_that_was_asked_for() -> None:
    def rows(name):
        return evaluated(lambda: initial_rows(INITIALIZERS[name], 0, 20_000, 4, 3))

    assert rows("nothing").min() >= -0.05 and abs(rows("nothing").std() - 0.1 / np.sqrt(12)) < 1e-3
    assert rows("uniform").min() >= -2 and rows("uniform").max() <= 3 and abs(rows("uniform").mean() - 0.5) < 0.03
    assert abs(rows("normal").mean() - 1) < 0.01 and abs(rows("normal").std() - 0.5) < 0.01
    assert abs(rows("truncated") - 1).max() <= 1.0 and abs(rows("truncated").std() - 0.44) < 0.01
    assert (rows("a number") == 0.25).all() and (rows("a class") == 1).all()


def test_a_seed_of_the_initializer_counts_more_than_that_of_the_job() -> None:
    seeded = v1.random_normal_initializer(seed=3)
    one, two = (evaluated(lambda seed=seed: initial_rows(seeded, 0, 5, 2, seed)) for seed in (1, 2))
    assert np.array_equal(one, two)


REFUSED = {
    "neither rows nor hash_buckets": (
        {"dimension": 2},
        [1],
        "no rows, hash_buckets or capacity: give one",
    ),
    "both": ({"dimension": 2, "rows": 3, "hash_buckets": 3}, [1], "rows=3 and hash_buckets=3: give one"),
    "no dimension": ({"rows": 3}, [1], "has no dimension"),
    "no rows": ({"dimension": 2, "rows": 0}, [1], "rows=0: use a whole number of at least 1"),
    "half a row": ({"dimension": 2, "rows": 2.5}, [1], "rows=2.5: use a whole number"),
    "too many rows": ({"dimension": 2, "rows": [2**30, 2**30]}, [[1, 1]], "at most 2147483647"),
    "an unknown combiner": (
        {"dimension": 2, "rows": 3, "combiner": "max"},
        [[1]],
        "combiner=max: use one of sum, mean",
    ),
    "an unknown oov": ({"dimension": 2, "rows": 3, "oov": "skip"}, [1], "oov=skip: use one of error, default, hash"),
    "oov with hash_buckets": ({"dimension": 2, "hash_buckets": 3, "oov": "hash"}, [1], "leave oov out"),
    "weights without a combiner": (
        {"dimension": 2, "rows": 3, "weights": [[1.0]]},
        [[1]],
        "has weights but no combiner",
    ),
    "a combiner of single ids": (
        {"dimension": 2, "rows": 3, "combiner": "sum"},
        [1],
        r"shape \(1,\): use \[batch, n\]",
    ),
    "another number of fields": ({"dimension": 2, "rows": [3, 3]}, [[1]], "has 2 sizes"),
    "weights of another shape": (
        {"dimension": 2, "rows": 3, "combiner": "sum", "weights": [[1.0, 2.0]]},
        [[1]],
        r"weights of shape \(1, 2\) for ids of shape \(1, 1\)",
    ),
    "ids that are no whole numbers": (
        {"dimension": 2, "rows": 3},
        [1.0],
        "ids of float32: use whole numbers or strings",
    ),
    "capacity with rows": ({"dimension": 2, "rows": 3, "capacity": 3}, [1], "rows=3 and capacity=3: give one"),
    "no capacity": ({"dimension": 2, "capacity": 0}, [1], "capacity=0: use a whole number of at least 1"),
    "a capacity for each field": ({"dimension": 2, "capacity": [3, 4]}, [[1, 2]], r"capacity=\[3, 4\]: use a whole"),
    "admitted before it is seen": (
        {"dimension": 2, "capacity": 3, "admit_after": 0},
        [1],
        "table table has admit_after=0: use a whole number of at least 1",
    ),
    "expired at once": (
        {"dimension": 2, "capacity": 3, "expire_steps": 0},
        [1],
        "table table has expire_steps=0: use a whole number of at least 1",
    ),
    "half a step": ({"dimension": 2, "capacity": 3, "expire_steps": 1.5}, [1], "expire_steps=1.5: use a whole number"),
    "admit_after of fixed ids": (
        {"dimension": 2, "rows": 3, "admit_after": 2},
        [1],
        "admit_after=2 but no capacity: .*or leave admit_after out",
    ),
    "expire_steps of hashed ids": (
        {"dimension": 2, "hash_buckets": 3, "expire_steps": 2},
        [1],
        "expire_steps=2 but no capacity",
    ),
    "oov with capacity": (
        {"dimension": 2, "capacity": 3, "oov": "hash"},
        [1],
        "capacity and oov=hash: .*leave oov out",
    ),
    "floats with capacity": ({"dimension": 2, "capacity": 3}, [1.0], "ids of float32: use whole numbers or strings"),
    "an initializer of the whole table": (
        {"dimension": 2, "capacity": 3, "initializer": tf.keras.initializers.GlorotUniform},
        [1],
        "initializer=GlorotUniform, which does not work with capacity: use a number",
    ),
    "too great a capacity": ({"dimension": 2, "capacity": 2**31}, [1], "at most 2147483647"),
    "strings without buckets": ({"dimension": 2, "rows": 3}, ["a"], "declare it with hash_buckets"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_together_is_refused_with_what_does(name: str) -> None:
    declaration, ids, words = REFUSED[name]
    with pytest.raises(ModelError, match=words):
        looked_up(ids, **declaration)


def test_ragged_ids_need_a_combiner() -> None:
    with pytest.raises(ModelError, match="RaggedTensor ids without a combiner"):
        looked_up(lambda: tf.RaggedTensor.from_row_splits(tf.constant([1]), tf.constant([0, 1])), rows=5, dimension=2)


def test_a_lookup_declares_all_that_a_table_takes() -> None:
    fields = {field.name: field.type for field in dataclasses.fields(embeddings.Table)}
    declared = {name: hint.__forward_arg__ for name, hint in Declaration.__annotations__.items()}
    assert {"name": "str", **declared} == fields


def test_an_argument_that_no_table_has_is_refused() -> None:
    with pytest.raises(TypeError, match="'row'"):
        looked_up([1], row=5, dimension=2)


def test_a_name_is_one_table_within_a_scope_and_declared_in_one_way() -> None:
    with tf.Graph().as_default():
        table = embeddings.Table("table", rows=5, dimension=2)
        embeddings.lookup(table, tf.constant([1]))
        embeddings.lookup("table", tf.constant([2]), rows=5, dimension=2)
        with v1.variable_scope("other"):
            embeddings.lookup("table", tf.constant([2]), rows=6, dimension=2)
        assert [v.op.name for v in v1.global_variables()] == ["table", "other/table"]
        with pytest.raises(ModelError, match="table table is declared twice"):
            embeddings.lookup("table", tf.constant([2]), rows=7, dimension=2)
        with pytest.raises(ModelError, match="given a Table and its declaration"):
            embeddings.lookup(table, tf.constant([2]), rows=5)
