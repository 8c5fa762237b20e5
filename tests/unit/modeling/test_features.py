"""Functions that make features of columns, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import ModelError, features

RANDOM = np.random.default_rng(4)


def value_of(tensor):
    with v1.Session(graph=tensor.graph) as session:
        session.run([v1.global_variables_initializer()] if v1.global_variables() else [])
        return session.run(tensor)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("base", [2.0, 1.5, 10.0])
def test_log_buckets_are_the_rounded_logarithms(base):
    values = np.concatenate([RANDOM.exponential(50, 500), [0.2, 5.1, 1e6]]).reshape(-1, 1).astype(np.float32)
    found = value_of(features.log_buckets(values, base, count=8))
    expected = np.minimum(np.floor(np.log1p(values.astype(float)) / np.log(base)) + 1, 7)
    np.testing.assert_array_equal(found, expected)


def test_what_is_below_zero_or_missing_is_in_the_first_bucket_and_what_is_infinite_in_the_last():
    values = np.array([-5.0, -np.inf, np.nan, 0.0, 1.0, 2.9, 3.0, np.inf], np.float32)
    np.testing.assert_array_equal(value_of(features.log_buckets(values, count=6)), [0, 0, 0, 1, 2, 2, 3, 5])
    np.testing.assert_array_equal(
        value_of(features.log_buckets(np.array([[0, 1], [7, 900]]), count=6)), [[1, 2], [4, 5]]
    )


def test_quantile_buckets_have_equal_numbers_of_values():
    values = RANDOM.lognormal(0, 2, 10_000).astype(np.float32)
    ends = features.quantiles(np.append(values, np.nan), 10)
    found = value_of(features.quantile_buckets(tf.constant(values), ends))
    np.testing.assert_array_equal(found, np.searchsorted(np.float32(ends), values, side="right"))
    np.testing.assert_allclose(np.bincount(found), 1000, atol=2)


def test_a_frequent_value_makes_fewer_buckets():
    values = np.array([0.0] * 80 + list(range(1, 21)))
    ends = features.quantiles(values, 10)
    assert ends == sorted(set(ends)) and len(ends) < 9
    found = value_of(features.quantile_buckets(values, ends))
    assert len(set(found[:80])) == 1 and len(set(found)) == len(ends)  # no value is below 0


def splitmix(value):
    mask = (1 << 64) - 1
    value &= mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return (value ^ (value >> 31)) & ((1 << 63) - 1)


def test_crossed_columns_are_the_hashes_of_numpy():
    one, two = RANDOM.integers(-5, 1 << 40, (50, 2)), RANDOM.integers(0, 9, (50, 2)).astype(np.int32)
    found = value_of(features.cross(one, two))
    expected = [splitmix((splitmix(int(a)) * 3) ^ splitmix(int(b))) for a, b in zip(one.flat, two.flat, strict=True)]
    assert found.shape == (50, 2) and found.flatten().tolist() == expected


def test_each_combination_has_an_id_of_its_own_and_the_order_counts():
    a, b = (part.ravel() for part in np.meshgrid(np.arange(100), np.arange(100)))
    found = value_of(features.cross(a, b, np.full(10_000, "de")))
    assert len(set(found)) == 10_000 and found.min() >= 0
    swapped = value_of(features.cross(b, a, np.full(10_000, "de")))
    assert ((found == swapped) == (a == b)).all()


def test_the_bias_of_a_position_is_learned_and_neutral_outside_of_training():
    positions = tf.constant([0, 1, 2, 7, -1])
    bias = features.position_bias(positions, 3, training=True)
    with v1.variable_scope("", reuse=True):
        served = features.position_bias(positions, 3, training=False)
    (variable,) = v1.trainable_variables()
    with v1.Session() as session:
        variable.load([0.5, -2.0], session)
        np.testing.assert_array_equal(session.run(bias), [0.0, 0.5, -2.0, -2.0, 0.0])
        np.testing.assert_array_equal(session.run(served), [0.0] * 5)
        np.testing.assert_array_equal(session.run(tf.convert_to_tensor(tf.gradients(bias, variable)[0])), [1.0, 2.0])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: features.log_buckets([1.0], base=1.0), "base=1.0"),
        (lambda: features.quantile_buckets([1.0], []), "at least one number"),
        (lambda: features.quantile_buckets([1.0], [2.0, 1.0]), "increasing"),
        (lambda: features.quantiles([np.nan], 3), "no values"),
        (lambda: features.quantiles([1.0], 1), "count=1"),
        (lambda: features.cross(tf.constant([1])), "1 columns"),
        (lambda: features.cross(tf.constant([1]), tf.constant([1.0])), "float32"),
        (lambda: features.position_bias(tf.constant([1]), 1, True), "count=1"),
    ],
)
def test_a_wrong_argument_is_refused_in_one_line(wrong, said):
    with pytest.raises(ModelError, match=said):
        wrong()
