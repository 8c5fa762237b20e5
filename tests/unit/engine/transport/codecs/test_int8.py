"""int8: small errors of mean zero, one scale a block, any length."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.engine.transport.codecs.int8 import BLOCK, Int8
from tests.support.graphs.codecs import UsedCodec


def scales_of(vector):
    filled = np.pad(vector, (0, -len(vector) % BLOCK))
    return np.repeat(np.abs(filled.reshape(-1, BLOCK)).max(1) / 127, BLOCK)[: len(vector)]


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("length", [1, 7, 255, 256, 257, 4096, 5000, 3 * 4096, 4096 + 256])
def test_an_error_is_below_one_unit_of_the_blocks_scale(length, is_known):
    vector = np.random.default_rng(length).normal(size=length).astype(np.float32) * np.logspace(-6, 6, length)
    vector = vector.astype(np.float32)
    decoded = UsedCodec(Int8(), length, is_known)(vector)
    assert decoded.shape == vector.shape
    assert (np.abs(decoded - vector) <= scales_of(vector) * 1.001).all()


@pytest.mark.usual(1)
@pytest.mark.parametrize("length", [300, 2 * 4096], ids=["some blocks", "whole groups"])
def test_the_mean_of_many_encodings_is_the_vector(length):
    vector = np.random.default_rng(3).normal(size=length).astype(np.float32)
    used, count = UsedCodec(Int8(), length), 800
    total = np.zeros(length)
    for seed in range(count):
        total += used(vector, seed)
    errors = (total / count - vector) / (scales_of(vector) / np.sqrt(4 * count))  # in deviations of the mean, at most
    assert np.abs(errors).max() < 5
    assert abs(errors.mean()) < 0.5


def test_values_of_a_step_are_not_rounded_alike():
    vector = np.full(4096, 0.4, np.float32)
    vector[::BLOCK] = 127.0  # the unit is 1
    decoded = UsedCodec(Int8(), len(vector))(vector)
    rest = decoded[np.arange(4096) % BLOCK > 0]
    assert set(rest) == {0.0, 1.0}
    assert rest.mean() == pytest.approx(0.4, abs=0.03)


def test_one_seed_gives_one_result_and_another_seed_another():
    vector = np.random.default_rng(5).normal(size=1000).astype(np.float32)
    used = UsedCodec(Int8(), 1000)
    assert (used(vector, 1) == used(vector, 1)).all()
    assert (used(vector, 1) != used(vector, 2)).any()


def test_zeros_stay_zeros_and_extreme_blocks_are_finite():
    vector = np.concatenate(
        [np.zeros(BLOCK), np.full(BLOCK, 3e38), np.full(BLOCK, 1e-37), np.full(BLOCK, 1e-40)]
    ).astype(np.float32)
    decoded = UsedCodec(Int8(), len(vector))(vector)
    assert (decoded[:BLOCK] == 0).all()
    assert decoded[BLOCK : 2 * BLOCK] == pytest.approx(3e38, rel=0.01)
    assert np.isfinite(decoded).all()


def test_a_value_is_one_byte_and_a_block_four_more():
    numbers, scales = UsedCodec(Int8(), 1000).encode(np.ones(1000, np.float32))
    assert (numbers.dtype, numbers.shape, scales.shape) == (np.int8, (1000,), (4,))
