"""Optimizers by name: each argument of --optimizer_arg reaches the update, against TensorFlow's own class."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import optimizers
from ps_train.config.job import Job
from ps_train.config.optimizer_arguments import ADAGRAD_START, ARGUMENTS
from ps_train.modeling.model import make_optimizer
from tests.unit.modeling.test_optimizers import RATE, SHAPE, trained

CLASSES = {
    "sgd": v1.train.GradientDescentOptimizer,
    "momentum": v1.train.MomentumOptimizer,
    "adam": v1.train.AdamOptimizer,
    "adagrad": v1.train.AdagradOptimizer,
    "ftrl": v1.train.FtrlOptimizer,
    "rmsprop": v1.train.RMSPropOptimizer,
    "lazy_adam": optimizers.LazyAdam,
    "rowwise_adagrad": optimizers.RowWiseAdagrad,
}
OTHER = {
    "beta1": 0.5,
    "beta2": 0.9,
    "epsilon": 0.1,
    "decay": 0.5,
    "momentum": 0.5,
    "beta": 1.0,
    "use_nesterov": True,
    "centered": True,
    "initial_accumulator_value": 2.0,
    "learning_rate_power": -0.3,
    "l1_regularization_strength": 0.1,
    "l2_regularization_strength": 0.1,
    "l2_shrinkage_regularization_strength": 0.1,
}
NEEDED = {"momentum": {"momentum": 0.9}}
RANDOM = np.random.default_rng(3)
INITIAL = RANDOM.normal(size=SHAPE).astype(np.float32)
GRADIENTS = list(RANDOM.normal(size=(4, *SHAPE)).astype(np.float32))
OF_ROWS = [([0, 2, 5], gradient[:3]) for gradient in GRADIENTS]


def by_name(name: str, *given: str) -> v1.train.Optimizer:
    return make_optimizer(Job(optimizer=name, optimizer_arg=given).optimizer_name("sgd"), RATE)


@pytest.mark.usual(20)
@pytest.mark.parametrize(("name", "key"), [(name, key) for name in ARGUMENTS for key in ARGUMENTS[name]])
@pytest.mark.parametrize("gradients", [GRADIENTS, OF_ROWS], ids=["dense", "rows"])
def test_an_argument_has_the_effect_that_it_has_in_the_class(name, key, gradients):
    found = trained(by_name(name, f"{key}={OTHER[key]}"), INITIAL, gradients)
    expected = trained(CLASSES[name](RATE, **{**NEEDED.get(name, {}), key: OTHER[key]}), INITIAL, gradients)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert not np.allclose(found, trained(by_name(name), INITIAL, gradients), atol=1e-4)


@pytest.mark.parametrize("name", ["adagrad", "rowwise_adagrad"])
def test_a_name_starts_where_rare_rows_learn_and_a_class_where_tensorflow_does(name):
    assert start_of(by_name(name)) == np.float32(ADAGRAD_START)
    assert start_of(by_name(name, "initial_accumulator_value=0.5")) == np.float32(0.5)
    assert start_of(CLASSES[name](RATE)) == start_of(v1.train.AdagradOptimizer(RATE)) == np.float32(0.1)


def start_of(optimizer: v1.train.Optimizer) -> np.float32:
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("v", initializer=INITIAL, use_resource=True)
        optimizer.apply_gradients([(tf.zeros_like(INITIAL), variable)])
        session.run(v1.global_variables_initializer())
        (start,) = set(session.run(optimizer.get_slot(variable, "accumulator")).ravel().tolist())
        return np.float32(start)
