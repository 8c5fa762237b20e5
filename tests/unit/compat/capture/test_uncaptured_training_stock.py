"""A program that is not captured gives what the stock Estimator gives, and each continues the other's checkpoints."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from ps_train.compat.estimator.spec.run_config import RunConfig
from tests.support.compat.stock_estimator import (
    PATH_VARIABLE,
    SAVE_STEPS,
    SEED,
    input_fn,
    model_fn_of,
    train_with_stock,
    where,
)

pytestmark = pytest.mark.skipif(
    not where(), reason=f"tensorflow-estimator 2.15.0 is not installed, and {PATH_VARIABLE} does not name its directory"
)


def train(directory: pathlib.Path, max_steps: int) -> None:
    config = RunConfig(str(directory), tf_random_seed=SEED, save_checkpoints_steps=SAVE_STEPS, engine="tensorflow")
    Estimator(model_fn_of(EstimatorSpec), config=config).train(input_fn, max_steps=max_steps)


def values_of(directory: pathlib.Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(directory))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def check_equal(ours: pathlib.Path, stock: pathlib.Path) -> None:
    left, right = values_of(ours), values_of(stock)
    assert left.keys() == right.keys()
    different = [name for name in left if not np.array_equal(left[name], right[name])]
    assert different == []


@pytest.fixture(scope="module")
def stock_at_10(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    directory = tmp_path_factory.mktemp("stock")
    train_with_stock(directory, 10)
    return directory


@pytest.mark.long
def test_point_66_all_variables_are_bitwise_those_of_the_stock_estimator(tmp_path, stock_at_10):
    train(tmp_path, 10)
    check_equal(tmp_path, stock_at_10)
    slots = {"deep/kernel/Adam", "deep/out/Adam_1", "beta1_power", "wide/table/Ftrl", "wide/table/Ftrl_1"}
    assert slots <= values_of(tmp_path).keys()


@pytest.mark.long
def test_point_69_each_continues_the_checkpoint_of_the_other(tmp_path, stock_at_10):
    ours = tmp_path / "ours"
    train(ours, 10)
    train(stock_at_10, 25)
    train_with_stock(ours, 25)
    check_equal(ours, stock_at_10)
    assert values_of(ours)["global_step"] == 25
