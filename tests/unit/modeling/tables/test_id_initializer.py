"""Initial rows of an open vocabulary's ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.tables.id_encoding import encode_ids
from ps_train.modeling.tables.id_initializer import initial_rows_of_ids
from ps_train.modeling.tables.table import Table
from tests.support.graphs.lookups import evaluated


def table(**declared: Any) -> Table:
    return Table("users", **{"dimension": 4, "capacity": 100, **declared})


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
