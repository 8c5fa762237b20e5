"""Compiled Keras models for jobs by flags."""

from __future__ import annotations

import keras
import numpy as np

import ps_train

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(1500, 6).astype(np.float32)
CLASSES = (X @ RANDOM.randn(6, 3)).argmax(1).astype(np.int32)
TEST = 700


def data(split: str, data_dir: str) -> ps_train.Arrays:
    return ps_train.Arrays(X[TEST:], CLASSES[TEST:]) if split == "train" else ps_train.Arrays(X[:TEST], CLASSES[:TEST])


def net(units: int = 16) -> keras.Model:
    layers = [keras.Input((6,)), keras.layers.Dense(units, activation="relu"), keras.layers.BatchNormalization()]
    model = keras.Sequential([*layers, keras.layers.Dropout(0.2), keras.layers.Dense(3)], name="net")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss, metrics=["accuracy"])
    return model
