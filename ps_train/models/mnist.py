"""MNIST models: softmax regression and a perceptron.  The IDX files are read from --data_dir."""

from __future__ import annotations

import tensorflow as tf

from ps_train import Arrays
from ps_train.data import idx
from ps_train.models.classifier import Classifier
from ps_train.models.layers import dense, perceptron

__all__ = ["Mlp", "Softmax"]


class _Mnist(Classifier):
    def data(self, split: str, data_dir: str) -> Arrays:
        images, labels = idx.load(data_dir, split)
        return Arrays(images.reshape(len(images), -1), labels.astype("int64"))


class Softmax(_Mnist):
    """A softmax regression: one layer, 784 x 10, trained by gradient descent with learning rate 0.1."""

    default_optimizer = "sgd"
    default_learning_rate = 0.1

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns the logits, float32 [batch, 10], of pixels, uint8 [batch, 784]."""
        return dense(_scaled(features), 10, "softmax")


class Mlp(_Mnist):
    """A perceptron with two hidden layers.

    Args:
      hidden1: units of the first hidden layer.
      hidden2: units of the second hidden layer.
    """

    default_optimizer = "adam"
    default_learning_rate = 0.001

    def __init__(self, hidden1: int = 256, hidden2: int = 128) -> None:
        self.hidden = [hidden1, hidden2]

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns the logits, float32 [batch, 10], of pixels, uint8 [batch, 784]."""
        return perceptron(_scaled(features), self.hidden, outputs=10)


def _scaled(pixels: tf.Tensor) -> tf.Tensor:
    """Converts bytes 0..255 to float32 0..1; the input pipeline thus handles bytes, which are smaller."""
    return tf.cast(pixels, tf.float32) / 255.0
