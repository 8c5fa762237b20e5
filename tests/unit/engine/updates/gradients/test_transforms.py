"""Clipping by a norm is right in every dtype, even where squares overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.engine.updates.gradients.transforms import by_global_norm, by_norm
from tests.support.graphs.gradients import NARROW, assert_equal_but_for_rounding, transformed, vector


def norm_of(*gradients: np.ndarray[Any, Any]) -> float:
    return float(np.sqrt(sum(np.sum(np.square(some.astype(np.float64))) for some in gradients)))


@pytest.mark.parametrize("dtype", [*NARROW, tf.float64])
def test_the_norm_of_a_gradient_is_right_where_its_squares_are_beyond_the_dtype(dtype: tf.DType) -> None:
    gradient = vector(np.linspace(300, 400, 5000), dtype)
    found = transformed(by_norm(10.0), {"w": gradient})["w"]
    assert found.dtype == gradient.dtype
    assert_equal_but_for_rounding(found, gradient.astype(np.float64) * 10.0 / norm_of(gradient))
    small = transformed(by_norm(1e6), {"w": gradient})["w"]
    assert_equal_but_for_rounding(small, gradient.astype(np.float64))


@pytest.mark.parametrize(
    "dtypes", [["float16"], ["bfloat16"], ["float64"], ["float16", "float32"], ["bfloat16", "float64", "float32"]]
)
def test_the_global_norm_is_that_of_all_gradients_whatever_their_dtypes(dtypes: list[str]) -> None:
    gradients = {name: vector(np.linspace(300, 400, 3000), tf.as_dtype(name)) for name in dtypes}
    gradients["another"] = vector(np.linspace(-5, 5, 8), tf.as_dtype(dtypes[0]))
    norm = norm_of(*gradients.values())
    found = transformed(by_global_norm(10.0), gradients)
    assert list(found) == list(gradients)
    for name, gradient in gradients.items():
        assert found[name].dtype == gradient.dtype
        assert_equal_but_for_rounding(found[name], gradient.astype(np.float64) * 10.0 / norm)


def test_one_dtype_gives_bit_for_bit_what_tensorflow_gives() -> None:
    random = np.random.default_rng(3)
    for dtype in (np.float32, np.float64):
        gradients = {"w": random.normal(size=[40, 5]).astype(dtype), "b": random.normal(size=[5]).astype(dtype)}
        found = transformed(by_global_norm(1.0), gradients)
        expected, _ = tf.clip_by_global_norm(list(gradients.values()), 1.0)
        for one, other in zip(found.values(), expected, strict=True):
            assert np.array_equal(one, other.numpy())


def test_the_norm_that_is_clipped_is_that_of_the_whole_variable_and_of_each_variable_alone() -> None:
    """Not that of its rows or columns, nor that of all variables."""
    gradients = {
        "w": np.random.default_rng(4).normal(size=[6, 5, 4]),
        "small": np.full([2, 3], 0.01),
        "b": np.float64(7),
    }
    found = transformed(by_norm(0.5), {name: np.asarray(some, np.float32) for name, some in gradients.items()})
    for name, gradient in gradients.items():
        factor = min(1.0, 0.5 / norm_of(np.asarray(gradient)))
        np.testing.assert_allclose(found[name], gradient * factor, rtol=1e-5, err_msg=name)
