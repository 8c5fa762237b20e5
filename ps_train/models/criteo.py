"""Click models for data of the Criteo Display Advertising Challenge, to be adapted to other fields.

    python -m ps_train --model=ps_train.models.criteo:WideAndDeep --data_dir=data/criteo

Without a data_dir they train on synthetic data of the same format, which are written once to the user's cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Model, embeddings, metrics
from ps_train.data import Stream, criteo
from ps_train.models.clicks import cached_synthetic_data
from ps_train.models.layers import dense, fm, perceptron

__all__ = ["ClickModel", "Combined", "DeepFM", "LogisticRegression", "WideAndDeep"]


class ClickModel(Model):
    """The base class of click models; outputs are logits, float32 [batch].

    Args:
      buckets: number of rows for each of the 26 fields, into which the field's categories are hashed.
    """

    default_optimizer = "adagrad"
    default_learning_rate = 0.05

    def __init__(self, buckets: int = 10_000) -> None:
        self.buckets = [buckets] * criteo.CATEGORIES

    def data(self, split: str, data_dir: str) -> Stream:
        """Returns a split of the files in `data_dir`, or of synthetic data if it is empty."""
        return criteo.load(data_dir or cached_synthetic_data(), split)

    def loss(self, outputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Returns the mean cross-entropy between the clicks and the logits."""
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))

    def metrics(self, outputs: tf.Tensor, labels: tf.Tensor) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        """Returns `auc`, `log_loss` and `calibration`."""
        return metrics.of_clicks(labels, outputs)

    def predictions(self, outputs: tf.Tensor) -> Mapping[str, tf.Tensor]:
        """Returns `probabilities` of a click and their `logits`, both float32 [batch]."""
        return {"probabilities": tf.sigmoid(outputs), "logits": outputs}

    def linear(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the logits of a linear model, float32 [batch]; its variables' names begin with `wide`."""
        weights = embeddings.lookup(
            "wide/categories", features["categories"], "sum", hash_buckets=self.buckets, dimension=1, initializer=0.0
        )
        with v1.variable_scope("wide"):
            return tf.squeeze(weights + dense(numbers(features), 1, "integers"), 1)

    def vectors(self, features: Mapping[str, tf.Tensor], dimension: int) -> tf.Tensor:
        """Returns a vector for each category, float32 [batch, 26, dimension]."""
        initializer = v1.random_normal_initializer(stddev=0.1)
        return embeddings.lookup(
            "deep/categories",
            features["categories"],
            hash_buckets=self.buckets,
            dimension=dimension,
            initializer=initializer,
        )


def numbers(features: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Returns float32 [batch, 26]: the 13 integers on a logarithmic scale around 1, then 1 for each that is present."""
    scaled = (tf.math.log1p(tf.maximum(features["integers"], 0.0)) - 2.0) / 1.5
    return tf.concat([scaled * features["present"], features["present"]], 1)


class LogisticRegression(ClickModel):
    """A linear model trained by Ftrl (McMahan et al. 2013, "Ad Click Prediction: a View from the Trenches").

    Args:
      buckets: see `ClickModel`.
      l1: strength of Ftrl's L1 term, which keeps weights of rare categories at zero.
      l2: strength of Ftrl's L2 term.
    """

    default_optimizer = "ftrl"
    default_learning_rate = 0.05

    def __init__(self, buckets: int = 10_000, l1: float = 1e-6, l2: float = 0.0) -> None:
        super().__init__(buckets)
        self.l1, self.l2 = l1, l2

    def forward(self, features: Any, training: bool) -> tf.Tensor:
        """Returns the logits of the linear model."""
        return self.linear(features)

    def optimizer(self, name: str, learning_rate: float) -> Any:
        """Makes Ftrl with the model's L1 and L2 terms, or the other optimizer that the job names."""
        if name != "ftrl":
            return super().optimizer(name, learning_rate)
        return v1.train.FtrlOptimizer(
            learning_rate, l1_regularization_strength=self.l1, l2_regularization_strength=self.l2
        )


class Combined(ClickModel):
    """The base class of models with a linear part trained by Ftrl and a deep part trained by the job's optimizer.

    Args:
      buckets: see `ClickModel`.
      dimension: dimension of the categories' vectors.
      hidden: units of each hidden layer, separated by commas.
      wide_rate: learning rate of Ftrl.
    """

    def __init__(
        self, buckets: int = 10_000, dimension: int = 8, hidden: str = "64,32", wide_rate: float = 0.05
    ) -> None:
        super().__init__(buckets)
        self.dimension, self.wide_rate = dimension, wide_rate
        self.hidden = [int(units) for units in hidden.split(",")]

    def optimizer(self, name: str, learning_rate: float) -> Any:
        """Makes Ftrl for the variables of the linear part, and the job's optimizer for all others."""
        return {"wide": v1.train.FtrlOptimizer(self.wide_rate), "": super().optimizer(name, learning_rate)}

    def deep(self, vectors: tf.Tensor, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Returns the logits of a perceptron on all vectors and integers, float32 [batch]."""
        flat = tf.reshape(vectors, [-1, criteo.CATEGORIES * self.dimension])
        with v1.variable_scope("deep"):
            inputs = tf.concat([flat, tf.cast(numbers(features), flat.dtype)], 1)
            return tf.squeeze(perceptron(inputs, self.hidden, outputs=1), 1)


class WideAndDeep(Combined):
    """A linear model beside a perceptron (Cheng et al. 2016, "Wide & Deep Learning for Recommender Systems")."""

    def forward(self, features: Any, training: bool) -> tf.Tensor:
        """Returns the sum of the logits of both parts."""
        return self.linear(features) + self.deep(self.vectors(features, self.dimension), features)


class DeepFM(Combined):
    """A wide and deep model that also adds the products of all pairs of vectors.

    See Guo et al. 2017, "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction".
    """

    def forward(self, features: Any, training: bool) -> tf.Tensor:
        """Returns the sum of the linear logits, the products of all pairs, and the perceptron's logits."""
        vectors = self.vectors(features, self.dimension)
        return self.linear(features) + fm(vectors) + self.deep(vectors, features)
