"""Optimizers of our own: rows without a gradient rest, and of a dense gradient they make what their names say."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1
from hypothesis import given, settings
from hypothesis import strategies as st

from ps_train import optimizers
from ps_train.config.job import Job
from ps_train.engine.updates.gradients import apply_gradients
from ps_train.modeling.model import make_optimizer
from tests.support.models.small import Linear
from tests.support.models.tables import NumpyRule

RATE, SHAPE = 0.1, (6, 3)


def trained(optimizer: v1.train.Optimizer, initial: np.ndarray, gradients: list) -> np.ndarray:
    """What the optimizer makes of a variable; a gradient is an array, or (rows, array)."""
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("v", initializer=initial, use_resource=True)
        sparse = isinstance(gradients[0], tuple)
        rows, values = v1.placeholder(tf.int32, [None]), v1.placeholder(tf.float32, [None, *initial.shape[1:]])
        values = values if sparse else tf.ensure_shape(values, initial.shape)
        gradient = tf.IndexedSlices(values, rows, tf.constant(initial.shape, tf.int64)) if sparse else values
        train = optimizer.apply_gradients([(gradient, variable)])
        session.run(v1.global_variables_initializer())
        for some in gradients:
            session.run(train, {rows: some[0], values: some[1]} if sparse else {values: some})
        return session.run(variable)


steps = st.lists(st.lists(st.integers(0, SHAPE[0] - 1), min_size=1, max_size=8), min_size=1, max_size=4)


@pytest.mark.parametrize("name", ["sgd", "momentum", "adagrad", "ftrl", "lazy_adam", "rowwise_adagrad"])
@settings(max_examples=8, deadline=None)
@given(steps=steps, seed=st.integers(0, 1000))
def test_rows_that_come_more_than_once_are_added_up_and_the_others_rest(name: str, steps: list, seed: int) -> None:
    random = np.random.default_rng(seed)
    initial = random.normal(size=SHAPE).astype(np.float32)
    gradients = [(rows, random.normal(size=(len(rows), SHAPE[1])).astype(np.float32)) for rows in steps]
    expected, numpy_rule = initial.astype(np.float64), NumpyRule(name, RATE, SHAPE)
    for rows, values in gradients:
        unique, index = np.unique(rows, return_inverse=True)
        total = np.zeros((len(unique), SHAPE[1]))
        np.add.at(total, index, values)
        numpy_rule.apply(expected, unique, total)
    np.testing.assert_allclose(trained(make_optimizer(name, RATE), initial, gradients), expected, atol=2e-6, rtol=2e-6)


def test_lazy_adam_of_dense_gradients_is_adam() -> None:
    random = np.random.default_rng(1)
    initial, gradients = np.ones(SHAPE, np.float32), list(random.normal(size=(5, *SHAPE)).astype(np.float32))
    lazy, adam = (trained(make_optimizer(name, RATE), initial, gradients) for name in ("lazy_adam", "adam"))
    np.testing.assert_array_equal(lazy, adam)


@pytest.mark.parametrize("shape", [(), (4,), (4, 3), (2, 3, 2)])
def test_row_wise_adagrad_has_one_accumulator_for_each_row_of_dense_gradients_too(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(1)
    initial = np.ones(shape, np.float32)
    gradients = [random.normal(size=shape).astype(np.float32) for _ in range(3)]
    found = trained(optimizers.RowWiseAdagrad(RATE), initial, gradients) if shape else trained_scalar(gradients)
    expected, accumulator = initial.astype(np.float64), np.full(shape[:1], 0.1)
    for gradient in gradients:
        accumulator = accumulator + (gradient**2).mean(axis=tuple(range(1, len(shape))))
        expected = expected - RATE * gradient / np.sqrt(accumulator).reshape(shape[:1] + (1,) * (len(shape) - 1))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def trained_scalar(gradients: list) -> np.ndarray:
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("v", [], initializer=v1.ones_initializer(), use_resource=True)
        gradient = v1.placeholder(tf.float32, [])
        train = optimizers.RowWiseAdagrad(RATE).apply_gradients([(gradient, variable)])
        session.run(v1.global_variables_initializer())
        for value in gradients:
            session.run(train, {gradient: value})
        return session.run(variable)


EVERY = {
    "sgd": v1.train.GradientDescentOptimizer,
    "momentum": lambda rate: v1.train.MomentumOptimizer(rate, 0.9),
    "nesterov": lambda rate: v1.train.MomentumOptimizer(rate, 0.9, use_nesterov=True),
    "TensorFlow's adagrad": v1.train.AdagradOptimizer,
    "adagrad": optimizers.Adagrad,
    "rmsprop": v1.train.RMSPropOptimizer,
    "ftrl": v1.train.FtrlOptimizer,
    "adam": v1.train.AdamOptimizer,
    "lazy_adam": optimizers.LazyAdam,
    "rowwise_adagrad": optimizers.RowWiseAdagrad,
}


@pytest.mark.parametrize("name", EVERY)
def test_a_row_that_several_replicas_push_in_one_round_is_updated_by_their_sum(name: str) -> None:
    """Under async a push has every row once, and nothing is added up: then, too, it is TensorFlow's own update."""

    class Model(Linear):
        def optimizer(self, _, learning_rate):
            return EVERY[name](learning_rate)

    random = np.random.default_rng(2)
    initial = random.normal(size=SHAPE).astype(np.float32)
    rounds = [(rows, random.normal(size=(len(rows), SHAPE[1])).astype(np.float32)) for rows in ROUNDS]
    sums = [(np.unique(rows), summed(rows, values)) for rows, values in rounds]
    assert all(len(rows) < len(repeated) for (rows, _), (repeated, _) in zip(sums, rounds, strict=True))
    expected = trained(EVERY[name](RATE), initial, sums)
    for update, gradients in (("sync", rounds), ("async", sums)):
        job = Job(update=update, learning_rate=RATE)
        found = trained(_Ruled(job, Model()), initial, gradients)  # type: ignore[arg-type]
        np.testing.assert_allclose(found, expected, atol=2e-6, rtol=2e-6, err_msg=update)


ROUNDS = [[0, 3, 3, 5, 3], [3, 0, 0], [1, 1, 5, 5]]


def summed(rows: list[int], values: np.ndarray) -> np.ndarray:
    unique, index = np.unique(rows, return_inverse=True)
    total = np.zeros((len(unique), values.shape[1]), np.float32)
    np.add.at(total, index, values)
    return total


class _Ruled:
    """What a ps makes of gradients, with the face of an optimizer."""

    def __init__(self, job: Job, model: Linear) -> None:
        self._job, self._model = job, model

    def apply_gradients(self, pairs: list) -> tf.Operation:
        ((gradient, variable),) = pairs
        rules = apply_gradients.RulesOfModel(self._job, self._model)
        sums_rows = self._job.update == "sync"
        applied = apply_gradients.AppliedOptimizers("", rules, {"v": variable}, tf.constant(0), sums_rows)
        return applied.apply({"v": gradient})
