"""A small perceptron for the digits that ship with the package."""

from __future__ import annotations

import tensorflow as tf

from ps_train import Arrays
from ps_train.data import digits
from ps_train.models.classifier import Classifier
from ps_train.models.layers import perceptron

__all__ = ["Digits"]


class Digits(Classifier):
    """A perceptron with 64 pixels, one hidden layer and 10 classes.

    Args:
      hidden: units of the hidden layer.
    """

    default_optimizer = "adam"
    default_learning_rate = 0.002

    def __init__(self, hidden: int = 256) -> None:
        self.hidden = hidden

    def data(self, split: str, data_dir: str) -> Arrays:
        """Returns a split of the shipped digits; `data_dir` is not used."""
        return Arrays(*digits.load(split))

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        """Returns the logits, float32 [batch, 10], of pixels in 0..1, float32 [batch, 64]."""
        return perceptron(2.0 * features - 1.0, [self.hidden], outputs=10)
