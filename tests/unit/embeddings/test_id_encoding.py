"""Ids of open vocabularies: what is kept of them, to which heap they belong, and the values that they begin with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1
from hypothesis import given
from hypothesis import strategies as st

from ps_train import embeddings
from ps_train.embeddings.id_encoding import digests, encode_ids, group_of, unique
from ps_train.embeddings.id_initializer import initial_rows_of_ids
from ps_train.embeddings.row_groups import group_count, rows_per_group
from ps_train.embeddings.table import Table
from ps_train.errors import ModelError
from ps_train.placement.plan import VariableSpec, make_plan


def evaluated(build: Callable[[], Any]) -> Any:
    with tf.Graph().as_default(), v1.Session() as session:
        return session.run(build())


def table(**declared: Any) -> Table:
    return Table("users", **{"dimension": 4, "capacity": 100, **declared})


def words(ids: Any) -> np.ndarray:
    with tf.init_scope():
        return encode_ids(table(), tf.constant(ids)).numpy()


@given(st.lists(st.binary(max_size=15), min_size=2, max_size=30, unique=True))
def test_strings_of_up_to_15_bytes_have_words_of_their_own(ids: list[bytes]) -> None:
    assert len({tuple(word) for word in words(ids).tolist()}) == len(ids)


def test_longer_strings_differ_from_each_other_and_from_all_short_ones() -> None:
    ids = [b"x" * size for size in range(200)] + [b"y" + b"x" * size for size in range(200)]
    found = words(ids)
    assert len(np.unique(found, axis=0)) == 400
    assert ((found[:, 1] < 0) == np.array([len(name) > 15 for name in ids])).all()


def test_whole_numbers_are_their_own_words_and_digests() -> None:
    ids = np.array([-(2**63), 2**63 - 1, 0, -1])
    assert words(ids).tolist() == ids[:, None].tolist()
    assert evaluated(lambda: digests(tf.constant(ids[:, None]))).tolist() == ids.tolist()


@pytest.mark.parametrize("ids", [[5, 5, 7, 5], ["a", "a", "b", "a"]])
def test_what_is_unique_is_found_for_both_kinds(ids: list) -> None:
    found, index = evaluated(lambda: unique(encode_ids(table(), tf.constant(ids))))
    assert np.array_equal(found, words([ids[0], ids[2]])) and index.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("capacity", [1, 511, 512, 1000, 10_000, 100_000])
@pytest.mark.parametrize("kind", ["run", "strings"])
def test_as_many_ids_as_the_capacity_have_room_in_their_heaps(capacity: int, kind: str) -> None:
    ids: Any = np.arange(capacity) - capacity // 3
    ids = ids if kind == "run" else np.array([f"user-{i}" for i in ids])
    heaps = evaluated(lambda: group_of(encode_ids(table(), tf.constant(ids)), group_count(capacity)))
    counts = np.bincount(heaps, minlength=group_count(capacity))
    assert len(counts) == group_count(capacity) and counts.max() <= rows_per_group(capacity) - 1, counts


def test_a_table_has_few_more_rows_than_its_capacity() -> None:
    for capacity, allowed in ((1, 2), (511, 1.01), (10_000, 1.3), (1_000_000, 1.07), (10_000_000, 1.03)):
        found = table(capacity=capacity)
        assert found.total == found.groups * found.rows_per_group
        assert capacity < found.total <= max(capacity * allowed, capacity + 1), (capacity, found.total)


def test_heaps_stay_whole_on_their_ps() -> None:
    declared = table(capacity=10_000)
    shape = (declared.total, 4)
    plan = make_plan([VariableSpec("users", shape, "float32", 4, spread=True, grain=declared.rows_per_group)], 3)
    sizes = [piece.shape[0] / declared.rows_per_group for piece in plan.slices_of("users")]
    assert sizes == [13, 13, 13] and plan.slices_of("users")[2].begin == 26 * declared.rows_per_group


def fresh(ids: Any, seed: int = 3, **declared: Any) -> np.ndarray:
    some = table(**declared)
    return evaluated(lambda: initial_rows_of_ids(encode_ids(some, tf.constant(ids)), some, seed))


def test_the_value_that_an_id_begins_with_depends_on_the_id_and_the_seed_alone() -> None:
    ids = np.array([5, -7, 2**60])
    assert np.array_equal(fresh(ids)[::-1], fresh(ids[::-1]))
    assert len(np.unique(fresh(ids))) == 12 and not np.isin(fresh(ids), fresh(ids, seed=4)).any()
    given_seed = v1.random_uniform_initializer(-1, 1, seed=9)
    assert np.array_equal(fresh(ids, initializer=given_seed), fresh(ids, seed=4, initializer=given_seed))


@pytest.mark.parametrize("ids", [np.arange(20_000), np.arange(20_000).astype(str)], ids=["numbers", "strings"])
def test_values_are_distributed_as_the_initializer_says(ids: np.ndarray) -> None:
    for initializer, mean, deviation, least, most in (
        (None, 0, 0.1 / 12**0.5, -0.05, 0.05),
        (v1.random_uniform_initializer(1, 3), 2, 2 / 12**0.5, 1, 3),
        (v1.random_normal_initializer(1.0, 2.0), 1, 2, -12, 14),
        (v1.truncated_normal_initializer(1.0, 2.0), 1, 1.76, -3, 5),
        (tf.keras.initializers.RandomNormal(stddev=0.5), 0, 0.5, -3, 3),
    ):
        found = fresh(ids, initializer=initializer)
        assert abs(found.mean() - mean) < 0.02 * deviation and abs(found.std() / deviation - 1) < 0.02
        assert found.min() >= least and found.max() <= most
        assert abs(np.corrcoef(found.T) - np.eye(4)).max() < 0.03, "columns must have nothing to do with each other"


@pytest.mark.parametrize(
    ("initializer", "value"), [(0.5, 0.5), (v1.zeros_initializer, 0), (tf.keras.initializers.Constant(2.0), 2)]
)
def test_constants_are_constants(initializer: Any, value: float) -> None:
    assert np.array_equal(fresh([1, 2], initializer=initializer), np.full((2, 4), value))


def test_one_table_has_one_kind_of_ids() -> None:
    def both():
        embeddings.lookup("users", tf.constant([1]), capacity=5, dimension=2)
        embeddings.lookup("users", tf.constant(["a"]), capacity=5, dimension=2)

    with pytest.raises(ModelError, match="table users is given strings by one lookup and whole numbers by another"):
        evaluated(both)
