"""DCN v2: layers that cross all features with each other, beside a perceptron.  A recipe to copy.

    python -m ps_train --model=ps_train.models.dcn:Dcn --batch_size=128 --max_steps=1000

See Wang et al. 2021, "DCN V2: Improved Deep & Cross Network".  `ps_train.models.criteo` has data of a real format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model, embeddings, metrics
from ps_train.models.layers import cross, dense, perceptron

__all__ = ["Dcn", "planted"]

FIELDS, VALUES, NUMBERS = 4, 30, 3


def planted(split: str, examples: int = 30_000) -> tuple[Mapping[str, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Returns features, clicks and the logits by which they were drawn.

    A click depends on products of two or three features alone, on none of them by itself: hidden values of the
    categories in fields 0 and 1, and those of field 2 with the first two numbers.

    Returns:
      `fields` int64 [examples, 4] and `numbers` float32 [examples, 3]; float32 [examples]; float64 [examples].
    """
    hidden = np.random.default_rng(4).normal(size=(FIELDS, VALUES))
    random = np.random.default_rng(1 if split == "train" else 2)
    count = examples if split == "train" else examples // 4
    fields, numbers = random.integers(0, VALUES, (count, FIELDS)), random.normal(size=(count, NUMBERS))
    values = hidden[np.arange(FIELDS), fields]
    logits = 2 * values[:, 0] * values[:, 1] + 1.5 * values[:, 2] * numbers[:, 0] * numbers[:, 1]
    clicks = random.random(count) < 1 / (1 + np.exp(-logits))
    return {"fields": fields, "numbers": numbers.astype(np.float32)}, clicks.astype(np.float32), logits


class Dcn(Model):
    """Crossed features and a perceptron in parallel, then one linear layer.

    Args:
      dimension: dimension of the categories' vectors.
      layers: cross layers; 0 leaves the perceptron alone.
      hidden: units of the perceptron's layer.
    """

    default_optimizer, default_learning_rate = "lazy_adam", 0.01

    def __init__(self, dimension: int = 4, layers: int = 2, hidden: int = 32) -> None:
        self.dimension, self.layers, self.hidden = dimension, layers, hidden

    def data(self, split: str, data_dir: str) -> Arrays:
        """Returns a split of generated data."""
        return Arrays(*planted(split)[:2])

    def forward(self, features: Any, training: bool) -> tf.Tensor:
        """Returns the logits of a click, float32 [batch]."""
        initializer = v1.random_normal_initializer(stddev=0.3)
        vectors = embeddings.lookup(
            "fields", features["fields"], rows=[VALUES] * FIELDS, dimension=self.dimension, initializer=initializer
        )
        flat = tf.reshape(vectors, [-1, FIELDS * self.dimension])
        inputs = tf.concat([flat, tf.cast(features["numbers"], flat.dtype)], 1)
        crossed = cross(inputs, self.layers)
        deep = perceptron(inputs, [self.hidden], outputs=self.hidden)
        return tf.squeeze(dense(tf.concat([tf.cast(crossed, deep.dtype), tf.nn.relu(deep)], 1), 1, "logit"), 1)

    def loss(self, outputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy."""
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))

    def metrics(self, outputs: tf.Tensor, labels: tf.Tensor) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        """Returns `auc`, `log_loss` and `calibration`."""
        return metrics.of_clicks(labels, outputs)

    def predictions(self, outputs: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """Returns `probabilities` of a click, float32 [batch]."""
        return {"probabilities": tf.sigmoid(outputs)}
