"""A gradient that is not finite is found in every dtype, and finite gradients are sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.named_inputs import remember_inputs
from ps_train.engine.updates.gradients.push_guard import NOT_FINITE, bad_inputs, skip_if_not_finite, stop_if_not_finite
from tests.support.graphs.gradients import NARROW, vector


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


def test_the_error_counts_the_inputs_that_are_not_finite():
    with tf.Graph().as_default():
        age = tf.constant([[1.0, np.nan], [np.inf, 2.0]])
        remember_inputs({"age": age, "size": tf.constant([1, 2]), "height": tf.constant([1.0, 2.0])}, age[0] + 1)
        for loss, expected in ((tf.reduce_sum(age), "2 in feature age, 1 in labels"), (tf.constant(1.0), None)):
            kept = stop_if_not_finite(loss, [tf.ones([3])])
            with v1.Session() as session:
                if expected is None:
                    assert session.run(kept)[0].tolist() == [1, 1, 1]
                    continue
                with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE) as caught:
                    session.run(kept)
                assert bad_inputs(str(caught.value)) == expected


def test_an_error_without_inputs_names_none():
    with tf.Graph().as_default(), v1.Session() as session:
        kept = stop_if_not_finite(tf.constant(np.nan), [tf.ones([3])])
        with pytest.raises(tf.errors.InvalidArgumentError, match=NOT_FINITE) as caught:
            session.run(kept)
        assert bad_inputs(str(caught.value)) == ""
