"""Initial values given as tensors are computed in another graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ModelError
from ps_train.engine.variables.initial_tensor import InitialTensor, extract_initial_value


def extracted(make: Callable[[], tf.Tensor]) -> InitialTensor:
    with tf.Graph().as_default():
        return extract_initial_value("w", make(), {})


def value_of(initial: InitialTensor, seed: int = 7) -> np.ndarray:
    with tf.Graph().as_default(), v1.Session() as session:
        return session.run(initial.tensor(seed, 1))


def test_a_value_of_constants_is_computed_again() -> None:
    initial = extracted(lambda: tf.reshape(tf.range(6.0), [2, 3]) * 2.0)
    np.testing.assert_array_equal(value_of(initial), [[0, 2, 4], [6, 8, 10]])


def test_random_numbers_without_a_seed_get_the_given_one() -> None:
    def two() -> tf.Tensor:
        return tf.stack([v1.random_normal([3]), v1.random_normal([3])])

    initial = extracted(two)
    same, again, other = value_of(initial, 7), value_of(initial, 7), value_of(initial, 8)
    np.testing.assert_array_equal(same, again)
    assert (same != other).all() and (same[0] != same[1]).all()


def test_a_seed_of_the_model_stays() -> None:
    initial = extracted(lambda: v1.random_normal([3], seed=5))
    np.testing.assert_array_equal(value_of(initial, 7), value_of(initial, 8))


def test_functions_are_copied() -> None:
    initial = extracted(lambda: tf.cond(tf.constant(False), lambda: tf.constant(1.0), lambda: tf.constant(2.0)))
    assert value_of(initial) == 2.0


def test_the_value_of_another_variable_is_that_of_its_own_initial_value() -> None:
    with tf.Graph().as_default():
        other = v1.get_variable("other", [2], initializer=v1.zeros_initializer(), use_resource=True)
        read = other.read_value()
        seeds: list[int] = []

        def value(job_seed: int) -> tf.Tensor:
            seeds.append(job_seed)
            return tf.constant([3.0, 4.0])

        doubled = extract_initial_value("w", read * 2.0, {read.name: value})
        alone = extract_initial_value("w", read, {read.name: value})
        averaged = tf.cond(other.is_initialized(), other.read_value, lambda: other.initial_value)
        conditional = extract_initial_value("w", averaged + 1.0, {other.handle.name: value})
    np.testing.assert_array_equal(value_of(doubled), [6.0, 8.0])
    np.testing.assert_array_equal(value_of(alone), [3.0, 4.0])
    np.testing.assert_array_equal(value_of(conditional), [4.0, 5.0])
    assert seeds == [1, 1, 1]


def test_a_value_of_the_batch_or_of_an_unknown_variable_is_refused() -> None:
    with pytest.raises(ModelError, match="initial value of variable w depends on the batch"):
        extracted(lambda: v1.placeholder(tf.float32, [2]) * 2.0)
    with pytest.raises(ModelError, match=r"depends on other .*which has no value yet"):
        extracted(lambda: v1.get_variable("other", [2], use_resource=True).read_value())
