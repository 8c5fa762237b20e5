"""MNIST: the classic tutorial's softmax regression, and a perceptron.  The IDX files are read from --data_dir."""

from __future__ import annotations

import tensorflow as tf

from ps_train.data import idx
from ps_train.data.arrays import Arrays
from ps_train.models.classifier import Classifier
from ps_train.models.layers import dense, perceptron


class _Mnist(Classifier):
    def data(self, split: str, data_dir: str) -> Arrays:
        images, labels = idx.load(data_dir, split)
        return Arrays(images.reshape(len(images), -1), labels.astype("int64"))


class Softmax(_Mnist):
    """One layer, 784 x 10, learned by gradient descent with rate 0.1."""

    default_optimizer = "sgd"
    default_learning_rate = 0.1

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        return dense(_scaled(features), 10, "softmax")


class Mlp(_Mnist):
    """Two hidden layers."""

    default_optimizer = "adam"
    default_learning_rate = 0.001

    def __init__(self, hidden1: int = 256, hidden2: int = 128) -> None:
        self.hidden = [hidden1, hidden2]

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        return perceptron(_scaled(features), self.hidden, outputs=10)


def _scaled(pixels: tf.Tensor) -> tf.Tensor:
    """Bytes 0..255 as float32 0..1; done here so that the pixels travel and shuffle as bytes."""
    return tf.cast(pixels, tf.float32) / 255.0
