"""top_k: the largest values of a vector by magnitude, where they were."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.engine.transport.codecs.top_k import TopK
from tests.support.graphs.codecs import UsedCodec


def largest(vector, count):
    """The vector with zeros in the place of all values but the largest."""
    kept = np.zeros_like(vector)
    chosen = np.argsort(-np.abs(vector), kind="stable")[:count]
    kept[chosen] = vector[chosen]
    return kept


@pytest.mark.parametrize("share", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("length", [1, 10, 5000, 70_000, 200_000])
def test_the_largest_values_arrive_where_they_were(length, share):
    vector = np.random.default_rng(length).normal(size=length).astype(np.float32)
    decoded = UsedCodec(TopK(share), length)(vector)
    assert np.array_equal(decoded, largest(vector, max(1, round(share * length))))


@pytest.mark.parametrize("begin", [0, 65_535, 65_536, 131_072, 199_000])
def test_large_values_may_all_be_at_one_place(begin):
    vector = np.full(200_000, 1e-3, np.float32)
    vector[begin : begin + 1000] = -5.0
    decoded = UsedCodec(TopK(0.005), len(vector))(vector)
    assert np.flatnonzero(decoded).tolist() == list(range(begin, begin + 1000))


@pytest.mark.usual(2)
@pytest.mark.parametrize("columns", [16, 100, 128, 256])
def test_large_values_may_all_be_in_one_column_of_a_variable(columns: int) -> None:
    gradients = np.random.default_rng(columns).normal(size=(1 << 21) // columns * columns).astype(np.float32)
    vector = (gradients.reshape(-1, columns) * ([3.0] + [1.0] * (columns - 1))).astype(np.float32).ravel()
    decoded = UsedCodec(TopK(0.01), len(vector))(vector)
    assert np.array_equal(decoded, largest(vector, round(0.01 * len(vector))))


@pytest.mark.parametrize("length", [100, 50_000])
def test_equal_values_are_cut_to_the_share(length):
    decoded = UsedCodec(TopK(0.01), length)(np.full(length, 0.5, np.float32))
    assert np.count_nonzero(decoded) == length // 100
    assert set(decoded) == {0.0, 0.5}


@pytest.mark.parametrize("length", [100, 50_000])
def test_zeros_are_not_sent(length):
    vector = np.zeros(length, np.float32)
    used = UsedCodec(TopK(0.1), length)
    assert [part.size for part in used.encode(vector)] == [0, 0, 1]
    assert not used(vector).any()
    vector[7] = -1e-30
    assert used.encode(vector)[0].tolist() == [np.float32(-1e-30)]


def test_a_position_takes_two_bytes():
    values, positions, counts = UsedCodec(TopK(0.01), 150_000).encode(
        np.random.default_rng(1).normal(size=150_000).astype(np.float32)
    )
    assert (values.size, positions.size, counts.size) == (1500, 1500, 3)
    assert positions.dtype == np.uint16
    assert counts.sum() == 1500
