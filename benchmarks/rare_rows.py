"""Models whose tables have rows that few examples use, with data from known models; for `accumulators`.

    python -m ps_train --model=benchmarks.rare_rows:LongTail --batch_size=512 --max_steps=700

Each has `best_score`, the score of the model that drew the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train
from ps_train import embeddings, metrics
from ps_train.models.clicks.synthetic import auc
from ps_train.models.clicks.synthetic_model import SyntheticClickModel
from ps_train.models.criteo import WideAndDeep
from ps_train.models.layers import perceptron

Array = np.ndarray[Any, Any]

TRAIN_EXAMPLES, TEST_EXAMPLES = 358_400, 40_000


class LongTail(ps_train.Model):
    """Clicks of 12 fields with 20,000 values each, of which most are rare; a perceptron on 12 tables of vectors."""

    default_optimizer, default_learning_rate = "adagrad", 0.1
    fields, values, dimension, spread = 12, 20_000, 8, 0.45

    def data(self, split: str, data_dir: str) -> ps_train.Arrays:
        """Returns ids int64 [n, 12] and clicks float32 [n]."""
        ids, logits = self._draw(split)
        clicked = np.random.default_rng([24, split == "train"]).random(len(ids)) < 1 / (1 + np.exp(-logits))
        return ps_train.Arrays(ids, clicked.astype(np.float32))

    def _draw(self, split: str) -> tuple[Array, Array]:
        count = TRAIN_EXAMPLES if split == "train" else TEST_EXAMPLES
        shares = np.cumsum((np.arange(self.values) + 2.0) ** -1.1)
        random = np.random.default_rng([21, split == "train"])
        ids = np.searchsorted(shares[:-1] / shares[-1], random.random((count, self.fields)), "right")
        effects = np.random.default_rng(23).normal(0, self.spread, (self.fields, self.values))
        return ids.astype(np.int64), effects[np.arange(self.fields), ids].sum(1)

    def best_score(self) -> float:
        """Returns the AUC of the known model."""
        return auc(np.asarray(self.data("test", "").labels), self._draw("test")[1])

    def forward(self, features: Any, training: bool) -> Any:
        """Returns the logits, float32 [n]."""
        tables = [
            embeddings.lookup(f"table{field}", features[:, field], rows=self.values, dimension=self.dimension)
            for field in range(self.fields)
        ]
        return tf.squeeze(perceptron(tf.concat(tables, 1), [64], 1), 1)

    def loss(self, outputs: Any, labels: Any) -> Any:
        """Returns the mean cross-entropy."""
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))

    def metrics(self, outputs: Any, labels: Any) -> Mapping[str, tuple[Any, Any]]:
        """Returns AUC, log-loss and calibration."""
        return metrics.of_clicks(labels, outputs)


class Ratings(ps_train.Model):
    """Ratings of 4,000 items by 8,000 users; a matrix factorization with biases."""

    default_optimizer, default_learning_rate = "adagrad", 0.1
    users, items, dimension, noise = 8_000, 4_000, 8, 0.5

    def data(self, split: str, data_dir: str) -> ps_train.Arrays:
        """Returns the ids of users and items and the ratings, whose mean is 0."""
        count = TRAIN_EXAMPLES if split == "train" else TEST_EXAMPLES
        known, random = np.random.default_rng(31), np.random.default_rng([32, split == "train"])
        user, item = known.normal(0, 0.5, (self.users, 4)), known.normal(0, 0.5, (self.items, 4))
        biases = known.normal(0, 0.4, self.users), known.normal(0, 0.4, self.items)
        shares = np.cumsum((np.arange(self.items) + 20.0) ** -1.0)
        users = random.integers(0, self.users, count)
        items = np.searchsorted(shares[:-1] / shares[-1], random.random(count), "right")
        ratings = (user[users] * item[items]).sum(1) + biases[0][users] + biases[1][items]
        ratings += random.normal(0, self.noise, count)
        return ps_train.Arrays({"user": users, "item": items}, ratings.astype(np.float32))

    def best_score(self) -> float:
        """Returns the error of the known model."""
        return self.noise

    def forward(self, features: Any, training: bool) -> Any:
        """Returns the ratings, float32 [n]."""
        near_zero = v1.random_normal_initializer(stddev=0.1)
        user = embeddings.lookup("user", features["user"], rows=self.users, dimension=9, initializer=near_zero)
        item = embeddings.lookup("item", features["item"], rows=self.items, dimension=9, initializer=near_zero)
        return tf.reduce_sum(user[:, 1:] * item[:, 1:], 1) + user[:, 0] + item[:, 0]

    def loss(self, outputs: Any, labels: Any) -> Any:
        """Returns the mean squared error."""
        return tf.reduce_mean(tf.square(outputs - labels))

    def metrics(self, outputs: Any, labels: Any) -> Mapping[str, tuple[Any, Any]]:
        """Returns the root of the mean squared error."""
        return {"rmse": v1.metrics.root_mean_squared_error(labels, outputs)}


class Criteo(WideAndDeep):
    """The shipped Wide & Deep, on clicks in memory that its known model has drawn."""

    def data(self, split: str, data_dir: str) -> Any:
        """Returns features as the reader of the challenge's files makes them, and the clicks."""
        clicks, labels = self._draw(split)
        present = ~np.isnan(clicks.integers)
        features = {
            "integers": np.where(present, clicks.integers, 0).astype(np.float32),
            "present": present.astype(np.float32),
            "categories": clicks.categories,
        }
        return ps_train.Arrays(features, labels.astype(np.float32))

    @staticmethod
    def _draw(split: str) -> tuple[Any, Array]:
        random = np.random.default_rng([41, split == "train"])
        model = SyntheticClickModel(1)
        clicks = model.draw(random, TRAIN_EXAMPLES if split == "train" else TEST_EXAMPLES)
        return clicks, random.random(len(clicks.integers)) < model.probabilities(clicks)

    def best_score(self) -> float:
        """Returns the AUC of the known model."""
        clicks, labels = self._draw("test")
        return auc(labels, SyntheticClickModel(1).logits(clicks))
