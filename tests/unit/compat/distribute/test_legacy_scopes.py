"""A model may be compiled after the scope that it was made in."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.compat.distribute import legacy_scopes
from ps_train.compat.distribute.strategy import ParameterServerStrategy

X, Y = np.ones((8, 3), "f"), np.zeros(8, "i")


@pytest.mark.parametrize("make", [tf.distribute.MirroredStrategy, lambda: ParameterServerStrategy(num_workers=2)])
def test_its_metrics_are_made_in_that_scope(replaced, make):
    legacy_scopes.install(replaced)
    strategy = make()
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
    for _ in range(2):  # compiled again, too
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        assert set(model.evaluate(X, Y, verbose=0, return_dict=True)) == {"loss", "accuracy"}


def test_a_model_without_a_strategy_is_compiled_as_before(replaced):
    legacy_scopes.install(replaced)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    assert not tf.distribute.has_strategy()
    assert model.evaluate(X, Y, verbose=0) >= 0
    with ParameterServerStrategy(num_workers=2).scope():  # another scope than that of the model
        inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        inner.compile("sgd", "mse")
    assert inner.evaluate(X, Y, verbose=0) >= 0
