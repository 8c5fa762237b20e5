"""A deep interest network: a click depends on earlier items that are like the advertised one.  A recipe to copy.

    python -m ps_train --model=ps_train.models.din:Din --batch_size=128 --max_steps=1000

See Zhou et al. 2018, "Deep Interest Network for Click-Through Rate Prediction".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Model, embeddings, metrics
from ps_train.models.layers import attention_pooling, perceptron

__all__ = ["Din", "planted"]

ITEMS, KINDS = 60, 10


def planted(split: str, examples: int = 20_000) -> tuple[Mapping[str, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns features, clicks and the logits by which they were drawn.

    An item is of one of 10 hidden kinds.  A click is likely if an item of the advertised kind is in the history, which
    has items of many kinds and 0 to 12 of them.

    Returns:
      `item` int64 [examples] and `history`, a list of int64 arrays; float32 [examples]; float64 [examples].
    """
    kind = np.random.default_rng(3).integers(0, KINDS, ITEMS)
    random = np.random.default_rng(1 if split == "train" else 2)
    count = examples if split == "train" else examples // 4
    item, lengths = random.integers(0, ITEMS, count), random.integers(0, 13, count)
    history = [random.integers(0, ITEMS, length) for length in lengths]
    seen = np.array([np.sum(kind[some] == kind[one]) for some, one in zip(history, item, strict=True)])
    logits = 3.5 * np.minimum(seen, 2) - 2.0
    clicks = random.random(count) < 1 / (1 + np.exp(-logits))
    return {"item": item, "history": history}, clicks.astype(np.float32), logits


class Din(Model):
    """Attention over the history of an example, then a perceptron.

    Args:
      dimension: dimension of the items' vectors.
      attention: False weights all items of a history equally, for comparison.
    """

    default_optimizer, default_learning_rate = "lazy_adam", 0.01

    def __init__(self, dimension: int = 8, attention: bool = True) -> None:
        self.dimension, self.attention = dimension, attention

    def data(self, split: str, data_dir: str) -> tf.data.Dataset:
        """Returns a split of generated data; a list of another length in each example is ragged in the batch."""
        features, clicks, _ = planted(split)
        lengths = [len(some) for some in features["history"]]
        history = tf.RaggedTensor.from_row_lengths(np.concatenate(features["history"]), lengths)
        return tf.data.Dataset.from_tensor_slices(({"item": features["item"], "history": history}, clicks))

    def forward(self, features: Any, training: bool) -> tf.Tensor:
        """Returns the logits of a click, float32 [batch]."""
        table = embeddings.Table(
            "items", self.dimension, rows=ITEMS, initializer=v1.random_normal_initializer(stddev=0.3)
        )
        item, history = embeddings.lookup(table, features["item"]), features["history"]
        if self.attention:
            vectors = history.with_values(embeddings.lookup(table, history.values))
            interest = attention_pooling(item, vectors, (32,))
        else:
            interest = embeddings.lookup(table, history, "sum")
        return tf.squeeze(perceptron(tf.concat([item, interest, item * interest], 1), [32], outputs=1), 1)

    def loss(self, outputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy."""
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))

    def metrics(self, outputs: tf.Tensor, labels: tf.Tensor) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        """Returns `auc`, `log_loss` and `calibration`."""
        return metrics.of_clicks(labels, outputs)

    def predictions(self, outputs: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """Returns `probabilities` of a click, float32 [batch]."""
        return {"probabilities": tf.sigmoid(outputs)}
