"""Traced Keras models on ps and workers are trained as `model.fit` trains them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.models.keras_models import (
    KERAS_FITS,
    OPTIMIZERS,
    assert_equal_values,
    by_cluster,
    by_keras,
    dense_with,
)

STEPS = 54  # nine epochs


@pytest.mark.usual(1)
@pytest.mark.parametrize("name", KERAS_FITS)
def test_one_worker_equals_keras(name: str) -> None:
    expected = by_keras(KERAS_FITS[name](), STEPS)
    assert_equal_values(by_cluster(KERAS_FITS[name](), STEPS, num_ps=1, num_workers=1), expected, 1e-6)


@pytest.mark.long
@pytest.mark.usual(1)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_equals_keras_over_two_ps(name: str) -> None:
    expected = by_keras(dense_with(name), STEPS)
    atol = 2e-5 if name == "Muon" else 1e-6  # which iterates on a matrix, and so enlarges what rounding leaves
    assert_equal_values(by_cluster(dense_with(name), STEPS, num_ps=2, num_workers=1), expected, atol)


@pytest.mark.usual(1)
@pytest.mark.parametrize("name", ["two_outputs", "weighted", "large_table", "dense"])
def test_two_workers_equal_keras_on_the_whole_batch(name: str) -> None:
    expected = by_keras(KERAS_FITS[name](), STEPS)
    assert_equal_values(by_cluster(KERAS_FITS[name](), STEPS, num_ps=1, num_workers=2), expected, 1e-6)


@pytest.mark.long
def test_two_workers_have_masks_of_their_own() -> None:
    expected = by_keras(KERAS_FITS["normalized"](), 6)
    found = by_cluster(KERAS_FITS["normalized"](), 6, num_ps=1, num_workers=2)
    assert max(np.abs(found[key] - expected[key]).max() for key in found if key in expected) > 1e-4
