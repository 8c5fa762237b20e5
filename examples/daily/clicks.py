"""A factorization machine over the fields of a day: each field has a table, and the score is the sum of their products.

A new field adds a table and changes no other variable, so yesterday's model fits.
"""

from __future__ import annotations

import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train
from ps_train import embeddings

ADS = {1: 300, 2: 400}
"""Number of ads by day; a model scores later ads with the default row."""

DIMENSION = 8


class Clicks(ps_train.Model):
    """Args:
    day: the fields and sizes of this day.
    files: Parquet files below the directory of the data, for training.
    """

    default_optimizer = "adagrad"
    default_learning_rate = 0.2

    def __init__(self, day: int = 1, files: str = "") -> None:
        self.day, self.files = day, files or f"day{day}/train.parquet"
        self.fields = ["user", "ad", "hour"] + ["device"] * (day > 1)

    def data(self, split, data_dir):
        files = self.files if split == "train" else f"day{self.day}/test.parquet"
        return ps_train.Parquet(f"{data_dir}/{files}", self.fields, label="click")

    def forward(self, features, training):
        """The logit of a click, [batch]."""
        rows = [
            embeddings.lookup("users", features["user"], capacity=2000 * self.day, dimension=1 + DIMENSION),
            embeddings.lookup("ads", features["ad"], rows=ADS[self.day], dimension=1 + DIMENSION, oov="default"),
            embeddings.lookup("hours", features["hour"], rows=24, dimension=1 + DIMENSION),
        ]
        if "device" in self.fields:
            rows.append(embeddings.lookup("devices", features["device"], hash_buckets=64, dimension=1 + DIMENSION))
        each = tf.stack(rows, axis=1)  # [batch, fields, 1 + DIMENSION]
        weights, vectors = each[:, :, 0], each[:, :, 1:]
        products = tf.square(tf.reduce_sum(vectors, 1)) - tf.reduce_sum(tf.square(vectors), 1)
        bias = v1.get_variable("bias", [], initializer=v1.zeros_initializer())
        return bias + tf.reduce_sum(weights, 1) + 0.5 * tf.reduce_sum(products, 1)

    def loss(self, outputs, labels):
        """The mean over the batch."""
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))

    def metrics(self, outputs, labels):
        return {"auc": ps_train.metrics.auc(labels, outputs)}

    def predictions(self, outputs):
        return {"probabilities": tf.sigmoid(outputs)}
