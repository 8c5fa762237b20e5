"""A `train_step` is traced once; one that needs its values is refused."""

from __future__ import annotations

import keras
import pytest
import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.base.user_code import UserCodeError
from ps_train.modeling.keras.traced_step import trace_step


class OfValues(keras.Sequential):
    def train_step(self, data):
        return {"loss": float(data.numpy().mean())}


def trace(run_eagerly):
    model = OfValues([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=run_eagerly)
    trace_step(model, tf.TensorSpec([None, 2]))


def test_a_step_that_needs_values_is_refused_and_a_loop_is_named_to_one_that_ran_eagerly():
    with pytest.raises(UserCodeError, match=r"train_step\(\) raised .*numpy"):
        trace(run_eagerly=False)
    with pytest.raises(
        ModelError, match=r"train_step\(\) raised .*numpy.*run_eagerly=True .* loop of your own"
    ) as found:
        trace(run_eagerly=True)
    assert "\n" not in str(found.value)
