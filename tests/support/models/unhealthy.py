"""Models that make a job unhealthy, each in one way, and one that does not."""

from __future__ import annotations

import pathlib
import time

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from tests.support.models.small import Linear


def after(values, secs):
    """The same values, some time later."""

    def wait(found):
        time.sleep(secs)
        return found

    return tf.ensure_shape(tf.numpy_function(wait, [values], values.dtype), values.shape)


class Healthy(Linear):
    """A step computes for 60 ms, and has little to pull and push."""

    default_learning_rate = 0.001

    def forward(self, features, training):
        return super().forward(after(features, 0.06) if training else features, training)


class OneSlow(Healthy):
    """The second worker computes eight times as long."""

    def forward(self, features, training):
        slow = training and pathlib.Path("/proc/self/comm").read_text().strip() == "worker:1"
        return super().forward(after(features, 0.42) if slow else features, training)


class SlowInput(Healthy):
    """Its input takes longer than its step."""

    def data(self, split: str, data_dir: str):
        arrays = super().data(split, data_dir)
        if split == "test":
            return arrays

        def example(number):
            row = tf.reshape(after(number, 0.05) % self.count, [])
            return tf.constant(arrays.features)[row], tf.constant(arrays.labels)[row]

        return tf.data.Dataset.range(10**9).map(example)


class NotFinite(Healthy):
    """One loss of five is not a number."""

    def loss(self, outputs, labels):
        return super().loss(outputs, labels) + tf.where(v1.random_uniform([]) < 0.2, np.nan, 0.0)


class Uncuttable(Healthy):
    """Nearly all of it is one variable of one row."""

    def forward(self, features, training):
        one = v1.get_variable("one", [1, 200_000], initializer=v1.zeros_initializer())
        return super().forward(features, training) + tf.reduce_mean(one)


class Large(Linear):
    """A variable of some MiB, and next to nothing to compute."""

    default_learning_rate = 1e-6

    def __init__(self, mib: int = 16) -> None:
        super().__init__()
        self.mib = mib

    def forward(self, features, training):
        large = v1.get_variable("large", [self.mib, 1 << 18], initializer=v1.zeros_initializer())
        return super().forward(features, training) + tf.reduce_mean(large)
