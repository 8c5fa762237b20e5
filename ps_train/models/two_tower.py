"""Two towers for retrieval: vectors of users and items whose product tells the next item.  A recipe to copy.

    python -m ps_train --model=ps_train.models.two_tower:TwoTower --batch_size=128 --max_steps=1000

See Yi et al. 2019, "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations".  The negatives of
an example are the other items of its batch (`ps_train.negatives`).  The exported model gives the vector of a user; the
vectors of the items are for an index of nearest neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model, embeddings, negatives
from ps_train.models.layers import dense

__all__ = ["TwoTower", "planted"]

USERS, ITEMS, TOP = 300, 200, 10


def planted(split: str, examples: int = 60_000) -> tuple[Mapping[str, Any], np.ndarray[Any, Any]]:
    """Returns users and items, and the logits of all items for each example, by which its item was drawn.

    Items differ in popularity as 1, 1/2, 1/3 and so on, and suit a user by the product of two hidden vectors.
    """
    hidden = np.random.default_rng(5)
    users, items = hidden.normal(0, 1.2, (USERS, 3)), hidden.normal(0, 1.2, (ITEMS, 3))
    scores = users @ items.T - np.log(1 + hidden.permutation(ITEMS))
    random = np.random.default_rng(1 if split == "train" else 2)
    user = random.integers(0, USERS, examples if split == "train" else examples // 6)
    logits = scores[user]
    item = np.argmax(logits + random.gumbel(size=logits.shape), 1)  # a draw from their softmax
    return {"user": user, "item": item}, logits


class TwoTower(Model):
    """Two towers with a table and a layer each, trained by a softmax over the items of the batch.

    Args:
      dimension: dimension of the vectors.
      correct: whether the loss is corrected for the items' frequencies; without it popular items score too low.
      hardest: only so many negatives of each example count, those with the highest scores; 0: all.
    """

    default_optimizer, default_learning_rate = "adagrad", 0.1

    def __init__(self, dimension: int = 8, correct: bool = True, hardest: int = 0) -> None:
        self.dimension, self.correct, self.hardest = dimension, correct, hardest

    def data(self, split: str, data_dir: str) -> Arrays:
        """Returns a split of generated data; the label is the item again, as the metrics need it."""
        features, _ = planted(split)
        return Arrays(features, features["item"])

    def tower(self, name: str, ids: tf.Tensor, rows: int) -> tf.Tensor:
        """Returns the vectors of ids, [batch, dimension]."""
        found = embeddings.lookup(
            name, ids, rows=rows, dimension=self.dimension, initializer=v1.random_normal_initializer(stddev=0.3)
        )
        with v1.variable_scope(f"{name}_tower"):
            return found + dense(tf.nn.relu(dense(found, 16, "hidden")), self.dimension, "vector")

    def forward(self, features: Any, training: bool) -> Mapping[str, tf.Tensor]:
        """Returns the vectors of the users, and those of their items in training, else of all items."""
        items = features["item"] if training else tf.range(ITEMS, dtype=tf.int64)
        user = self.tower("users", features["user"], USERS)
        return {"user": user, "items": self.tower("items", items, ITEMS), "ids": items}

    def loss(self, outputs: Any, labels: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy of the examples' items against the other items of the batch."""
        hardest = self.hardest or None
        return tf.reduce_mean(
            negatives.in_batch(outputs["user"], outputs["items"], outputs["ids"], self.correct, hardest=hardest)
        )

    def metrics(self, outputs: Any, labels: tf.Tensor) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        """Returns `recall`, the share of examples whose item is among the ten of all items with the highest scores."""
        scores = tf.matmul(outputs["user"], outputs["items"], transpose_b=True)
        return {"recall": v1.metrics.mean(tf.cast(tf.math.in_top_k(labels, scores, TOP), tf.float32))}

    def predictions(self, outputs: Any) -> Mapping[str, tf.Tensor]:
        """Returns the vectors of the users, float32 [batch, dimension], and their ten best items, int32 [batch, 10]."""
        scores = tf.matmul(outputs["user"], outputs["items"], transpose_b=True)
        return {"vector": outputs["user"], "items": tf.math.top_k(scores, TOP).indices}
