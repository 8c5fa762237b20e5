"""Compiled Keras models for jobs by flags."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

import ps_train

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(1500, 6).astype(np.float32)
CLASSES = (X @ RANDOM.randn(6, 3)).argmax(1).astype(np.int32)
TEST = 700


def data(split: str, data_dir: str) -> ps_train.Arrays | tf.data.Dataset:
    if split == "train":
        return ps_train.Arrays(X[TEST:], CLASSES[TEST:])
    return tf.data.Dataset.from_tensor_slices((X[:TEST], CLASSES[:TEST]))  # all workers score a share of it


def loaded(path: str) -> keras.Model:
    """Returns a model in a file, with the state of its optimizer."""
    return keras.models.load_model(path)


def net(units: int = 16) -> keras.Model:
    hidden = keras.layers.Dense(units, activation="relu", name="hidden")
    layers = [keras.Input((6,)), hidden, keras.layers.BatchNormalization(name="norm"), keras.layers.Dropout(0.2)]
    model = keras.Sequential([*layers, keras.layers.Dense(3, name="out")], name="net")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss, metrics=["accuracy"])
    return model
