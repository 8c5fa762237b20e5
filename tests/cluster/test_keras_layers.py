"""Keras layers that are made in forward() train as in one plain session; those that keep state are refused."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.data.pipeline import DataSource
from ps_train.engine.variables.trace import trace
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long
from tests.support.models.of_users import UserModel, check_export, check_scores, check_training


def named_layers(x):
    """The names that Keras gives to the first layers of a process."""
    hidden = tf.keras.layers.Dense(5, activation="tanh", name="dense")(x)
    hidden = tf.keras.layers.LayerNormalization(name="layer_normalization")(hidden)
    rows = tf.keras.layers.Embedding(3, 5, name="embedding")(tf.cast(x[:, 0] > 0, tf.int32))
    return tf.keras.layers.Dense(1, name="dense_1")(hidden + rows)


def layers(x):
    hidden = tf.keras.layers.Dense(5, activation="tanh")(x)
    hidden = tf.keras.layers.LayerNormalization()(hidden)
    rows = tf.keras.layers.Embedding(3, 5)(tf.cast(x[:, 0] > 0, tf.int32))
    return tf.keras.layers.Dense(1)(hidden + rows)


@pytest.mark.parametrize("accumulate", [long(1), 2])
def test_layers_train_as_in_one_plain_session(accumulate: int, tmp_path: pathlib.Path) -> None:
    model = UserModel(layers)
    cluster = check_training(model, tmp_path, accumulate, reference=UserModel(named_layers))
    assert {"dense/kernel", "dense/bias", "layer_normalization/gamma"} <= cluster.values().keys()
    check_scores(model, cluster)
    check_export(model, cluster, tmp_path)


@pytest.mark.long
def test_initial_values_of_layers_depend_on_the_seed_alone(tmp_path: pathlib.Path) -> None:
    def initial(num_ps, seed):
        cluster = InProcessCluster(UserModel(layers), num_ps, 1, batch_size=4, seed=seed, partition_bytes=16)
        cluster.start()
        return {name: value for name, value in cluster.values().items() if "kernel" in name}

    first, again, other = initial(1, 3), initial(2, 3), initial(1, 4)
    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name], err_msg=name)
        assert not np.array_equal(value, other[name])
        assert value.std() > 0.01


@pytest.mark.parametrize("name", ["Dropout", "BatchNormalization"])
def test_a_layer_that_keeps_state_is_refused(name: str) -> None:
    def forward(x):
        layer = tf.keras.layers.Dropout(0.5) if name == "Dropout" else tf.keras.layers.BatchNormalization()
        return tf.keras.layers.Dense(1)(layer(x, training=True))

    model = UserModel(forward)
    with pytest.raises(ModelError, match=f"a Keras layer makes the variable .*use tf.nn.*for {name}"):
        trace(model, DataSource(lambda: model.data("train", "")), 4)


def test_a_layer_that_is_made_elsewhere_is_refused() -> None:
    layer = tf.keras.layers.Dense(1)
    with pytest.raises(ModelError, match=r"an earlier call of forward\(\) has made: make all of them in forward"):
        InProcessCluster(UserModel(lambda x: layer(x)), 1, 1)
