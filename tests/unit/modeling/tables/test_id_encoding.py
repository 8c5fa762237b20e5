"""Encodings of an open vocabulary's ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from ps_train.modeling.tables.id_encoding import digests, encode_ids, unique
from ps_train.modeling.tables.table import Table
from tests.support.graphs.lookups import evaluated


def table(**declared: Any) -> Table:
    return Table("users", **{"dimension": 4, "capacity": 100, **declared})


def encoded(ids: Any) -> np.ndarray:
    with tf.init_scope():
        return encode_ids(table(), tf.constant(ids)).numpy()


@given(st.lists(st.binary(max_size=15), min_size=2, max_size=30, unique=True))
def test_strings_of_up_to_15_bytes_have_encodings_of_their_own(ids: list[bytes]) -> None:
    assert len({tuple(word) for word in encoded(ids).tolist()}) == len(ids)


def test_longer_strings_differ_from_each_other_and_from_all_short_ones() -> None:
    ids = [b"x" * size for size in range(200)] + [b"y" + b"x" * size for size in range(200)]
    found = encoded(ids)
    assert len(np.unique(found, axis=0)) == 400
    assert ((found[:, 1] < 0) == np.array([len(name) > 15 for name in ids])).all()


def test_whole_numbers_are_their_own_encodings_and_digests() -> None:
    ids = np.array([-(2**63), 2**63 - 1, 0, -1])
    assert encoded(ids).tolist() == ids[:, None].tolist()
    assert evaluated(lambda: digests(tf.constant(ids[:, None]))).tolist() == ids.tolist()


@pytest.mark.parametrize("ids", [[5, 5, 7, 5], ["a", "a", "b", "a"]])
def test_what_is_unique_is_found_for_both_kinds(ids: list) -> None:
    found, index = evaluated(lambda: unique(encode_ids(table(), tf.constant(ids))))
    assert np.array_equal(found, encoded([ids[0], ids[2]])) and index.tolist() == [0, 0, 1, 0]
