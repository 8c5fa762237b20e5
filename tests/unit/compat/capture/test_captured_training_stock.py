"""The engine and the stock Estimator continue each other's checkpoints, slots included, to the same values."""

from __future__ import annotations

import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from ps_train.compat.estimator.estimator import Estimator
from ps_train.compat.estimator.spec.estimator_spec import EstimatorSpec
from ps_train.compat.estimator.spec.run_config import RunConfig
from tests.support.compat.stock_estimator import PATH_VARIABLE, SEED, input_fn, model_fn_of, train_with_stock, where

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not where(),
        reason=f"tensorflow-estimator 2.15.0 is not installed, and {PATH_VARIABLE} does not name its directory",
    ),
]


def train(directory: pathlib.Path, max_steps: int) -> None:
    config = RunConfig(str(directory), tf_random_seed=SEED, engine="ps_train")
    Estimator(model_fn_of(EstimatorSpec), config=config).train(input_fn, max_steps=max_steps)


def values_of(directory: pathlib.Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(directory))
    names = [name for name in reader.get_variable_to_shape_map() if not name.startswith("ps_train/")]
    return {name: reader.get_tensor(name) for name in names}


@pytest.mark.long
def test_point_69_each_goes_on_where_the_other_ended(tmp_path: pathlib.Path) -> None:
    train_with_stock(tmp_path / "stock", 10)
    shutil.copytree(tmp_path / "stock", tmp_path / "ours")
    train(tmp_path / "ours", 20)
    train_with_stock(tmp_path / "stock", 20)
    shutil.copytree(tmp_path / "ours", tmp_path / "back")
    train_with_stock(tmp_path / "back", 30)
    train_with_stock(tmp_path / "stock", 30)
    ours, stock = values_of(tmp_path / "back"), values_of(tmp_path / "stock")
    assert ours.keys() == stock.keys() and stock["global_step"] == 30
    assert [name for name in stock if not np.array_equal(ours[name], stock[name])] == []
