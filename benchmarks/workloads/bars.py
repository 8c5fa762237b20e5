"""Bars: pictures that no linear model can tell apart, and a small convolutional network.

A picture is noise with one bar, which is at any place, bright or dark, and in one of four directions: the classes.  The
mean of a pixel is the same in all classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.workloads.base import TEST_EXAMPLES, Workload
from ps_train import Arrays

if TYPE_CHECKING:
    import tensorflow as tf

_SIDE, _LENGTH, _NOISE = 16, 7, 0.45
_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))
_CHANNELS = (16, 32)


class Bars(Workload):
    about = "two convolutions of 3x3 on pictures of 16x16, 6,852 parameters, Adam, batch 32"
    default_optimizer = "adam"
    default_learning_rate = 0.002
    batch_size = 32
    parameters = 6_852
    check_steps = 150
    tolerance = 0.5
    inputs = _SIDE * _SIDE
    classes = len(_DIRECTIONS)

    def data(self, split: str, data_dir: str) -> Arrays:
        """Returns pictures, float32 [n, inputs], and the directions of their bars, int64 [n]."""
        generator = np.random.default_rng(21 if split == "train" else 22)
        count = self.train_examples if split == "train" else TEST_EXAMPLES
        labels = generator.integers(0, self.classes, count)
        pictures = generator.normal(0, _NOISE, (count, _SIDE, _SIDE)).astype(np.float32)
        down, right = np.array(_DIRECTIONS)[labels].T
        places = _SIDE - (_LENGTH - 1) * np.abs([down, right])
        top, left = (generator.random((2, count)) * places).astype(int)
        left += (_LENGTH - 1) * (right < 0)
        shades = generator.choice([-1.0, 1.0], count)
        for number in range(_LENGTH):
            pictures[np.arange(count), top + number * down, left + number * right] += shades
        return Arrays(pictures.reshape([count, self.inputs]), labels)

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        import tensorflow as tf
        import tensorflow.compat.v1 as v1

        from ps_train.models.layers import convolution, dense

        hidden = tf.reshape(features, [-1, _SIDE, _SIDE, 1])
        for number, channels in enumerate(_CHANNELS):
            bias = v1.get_variable(f"bias{number}", [channels], initializer=v1.zeros_initializer())
            hidden = tf.nn.relu(convolution(hidden, channels, f"convolution{number}") + bias)
            hidden = tf.nn.max_pool2d(hidden, 2, 2, "SAME")
        return dense(tf.reshape(hidden, [-1, 4 * 4 * _CHANNELS[-1]]), self.classes, "logits")

    def metrics(self, outputs: tf.Tensor, labels: tf.Tensor) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        import tensorflow as tf
        import tensorflow.compat.v1 as v1

        accuracy = v1.metrics.accuracy(labels, tf.argmax(outputs, 1))
        return {**super().metrics(outputs, labels), "accuracy": accuracy}
