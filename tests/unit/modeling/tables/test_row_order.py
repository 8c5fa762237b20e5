"""Order of a table's rows, and their initial values."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1
from hypothesis import given
from hypothesis import strategies as st

from ps_train.modeling.tables.row_order import initial_rows, numbers_at, positions_of
from tests.support.graphs.lookups import evaluated


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
