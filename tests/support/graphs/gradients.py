"""Gradients of narrow dtypes, and what transforms make of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.engine.updates.gradients.transforms import Transform

NARROW = [tf.float16, tf.bfloat16]


def vector(values: Any, dtype: tf.DType) -> np.ndarray[Any, Any]:
    return np.asarray(values).astype(dtype.as_numpy_dtype)


def transformed(
    transform: Transform, gradients: Mapping[str, np.ndarray[Any, Any]], values: Mapping[str, Any] | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    with tf.Graph().as_default(), v1.Session() as session:
        found = transform(
            {name: tf.constant(some) for name, some in gradients.items()},
            {name: tf.constant(some) for name, some in (values or {}).items()},
        )
        return session.run(found)


def assert_equal_but_for_rounding(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """The expected values are float64: they may be rounded once to the dtype of what was found."""
    rounding = {"float16": 2**-10, "bfloat16": 2**-7}.get(found.dtype.name, 1e-6)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=rounding, atol=0)
