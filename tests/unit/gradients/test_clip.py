"""Checks and transforms of gradients in every floating-point dtype: nothing overflows that is finite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.gradients.base import Transform
from ps_train.gradients.clip import by_global_norm, by_norm
from ps_train.gradients.finite import NOT_FINITE, skip_if_not_finite, stop_if_not_finite
from ps_train.gradients.l2 import l2

NARROW = [tf.float16, tf.bfloat16]


def vector(values: Any, dtype: tf.DType) -> np.ndarray[Any, Any]:
    return np.asarray(values).astype(dtype.as_numpy_dtype)


def is_sent(*vectors: np.ndarray[Any, Any], loss: Any = 0.0) -> bool:
    """Sends vectors under both rules, which must agree."""
    with tf.Graph().as_default(), v1.Session() as session:
        sent = [tf.constant(some) for some in vectors]
        others = [np.zeros_like(some) for some in vectors]
        skipped = session.run(skip_if_not_finite(tf.constant(loss), sent, others))
        kept = all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(skipped, vectors, strict=True))
        assert kept or not any(some.astype(np.float64).any() for some in skipped)
        try:
            session.run(stop_if_not_finite(tf.constant(loss), sent))
        except tf.errors.InvalidArgumentError as error:
            assert NOT_FINITE in str(error) and not kept
        else:
            assert kept
        return kept


@pytest.mark.parametrize("dtype", NARROW)
def test_many_finite_gradients_whose_sum_is_beyond_the_dtype_are_finite(dtype: tf.DType) -> None:
    most = float(dtype.max)
    assert is_sent(vector(np.ones(70_000), dtype), vector([most, most, most], dtype))
    assert is_sent(vector([-most, -most], dtype))
    assert is_sent(vector(np.ones(0), dtype), vector([1.0], dtype))


@pytest.mark.parametrize("dtype", [*NARROW, tf.float32, tf.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 500, 999])
def test_one_number_that_is_not_finite_is_found_in_every_dtype(dtype: tf.DType, bad: float, place: int) -> None:
    values = np.ones(1000)
    values[place] = bad
    assert not is_sent(vector(np.ones(3), tf.float32), vector(values, dtype))


def test_float64_values_beyond_float32_are_finite() -> None:
    assert is_sent(vector([1e300, 2e300], tf.float64), vector([1.0], tf.float32), vector([1.0], tf.float16))
    assert is_sent(vector([1.0], tf.float32), loss=np.float64(1e200))
    assert not is_sent(vector([1.0], tf.float32), loss=np.float64(np.inf))
    assert not is_sent(vector([1.0], tf.float32), loss=np.float16(np.nan))


def transformed(
    transform: Transform, gradients: Mapping[str, np.ndarray[Any, Any]], values: Mapping[str, Any] | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    with tf.Graph().as_default(), v1.Session() as session:
        found = transform(
            {name: tf.constant(some) for name, some in gradients.items()},
            {name: tf.constant(some) for name, some in (values or {}).items()},
        )
        return session.run(found)


def norm_of(*gradients: np.ndarray[Any, Any]) -> float:
    return float(np.sqrt(sum(np.sum(np.square(some.astype(np.float64))) for some in gradients)))


def assert_equal_but_for_rounding(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """The expected values are float64: they may be rounded once to the dtype of what was found."""
    rounding = {"float16": 2**-10, "bfloat16": 2**-7}.get(found.dtype.name, 1e-6)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=rounding, atol=0)


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


@pytest.mark.parametrize("dtype", NARROW)
def test_l2_is_added_before_anything_is_rounded(dtype: tf.DType) -> None:
    """A strength of 1e-8 is zero in float16, but 1e-8 times 30,000 is not."""
    found = transformed(l2(1e-8), {"w": vector([0.0], dtype)}, {"w": vector([30_000.0], dtype)})["w"]
    assert_equal_but_for_rounding(found, vector([30_000.0], dtype).astype(np.float64) * 1e-8)


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
