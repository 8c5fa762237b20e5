"""Lookup: what click models are made of.  26 tables of which a batch touches few rows, and a perceptron on top."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.peers.handover import Network, perceptron
from benchmarks.workloads.base import TEST_EXAMPLES, Workload
from ps_train import Arrays

if TYPE_CHECKING:
    import tensorflow as tf

FIELDS, ROWS, DIMENSION = 26, 38_462, 16
_HIDDEN = (256, 128)
_DENSE = 416 * 256 + 256 + 256 * 128 + 128 + 128 + 1


class Lookup(Workload):
    about = "26 fields, 1 M rows of 16, MLP 416-256-128-1, Adagrad, log-uniform ids, batch 1024"
    default_optimizer = "adagrad"
    default_learning_rate = 0.3
    batch_size = 1024
    parameters = _DENSE + 16_127 * DIMENSION  # of the tables: the rows that a batch touches
    check_steps = 400
    tolerance = 0.03
    inputs = FIELDS
    train_examples = 131_072
    network: Network | None = Network(perceptron(FIELDS * DIMENSION, _HIDDEN, 1), (ROWS,) * FIELDS, DIMENSION)

    def data(self, split: str, data_dir: str) -> Arrays:
        """Ids int64 [n, 26]; clicks depend on the effects of the frequent ones."""
        count = self.train_examples if split == "train" else TEST_EXAMPLES
        generator = np.random.default_rng(12 if split == "train" else 13)
        ids = np.exp(generator.uniform(0, np.log(ROWS), (count, FIELDS))).astype(np.int64) - 1
        effects = np.random.default_rng(11).normal(0, 0.5, (FIELDS, ROWS))
        logits = effects[np.arange(FIELDS), ids].sum(1)
        clicked = generator.random(count) < 1 / (1 + np.exp(-logits))
        return Arrays(ids, clicked.astype(np.float32))

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        from ps_train import embeddings

        return self._click(embeddings.lookup("tables", features, rows=[ROWS] * FIELDS, dimension=DIMENSION))

    def peers_forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        """A table for each field, as one writes it without ps_train."""
        import tensorflow as tf
        import tensorflow.compat.v1 as v1

        near_zero = v1.random_uniform_initializer(-0.05, 0.05)
        found = []
        for field in range(FIELDS):
            table = v1.get_variable(f"table{field}", [ROWS, DIMENSION], initializer=near_zero)
            found.append(tf.nn.embedding_lookup(table, features[:, field]))
        return self._click(tf.stack(found, 1))

    @staticmethod
    def _click(rows: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        from ps_train.models.layers import perceptron

        return tf.squeeze(perceptron(tf.reshape(rows, [-1, FIELDS * DIMENSION]), _HIDDEN, 1), 1)

    def optimizer(self, name: str, learning_rate: Any) -> Any:
        """TensorFlow's start of the accumulators, which the other contenders have."""
        from ps_train import optimizers

        return optimizers.Adagrad(learning_rate) if name == "adagrad" else super().optimizer(name, learning_rate)

    def loss(self, outputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))

    def metrics(self, outputs: tf.Tensor, labels: tf.Tensor) -> Mapping[str, tuple[tf.Tensor, tf.Tensor]]:
        import tensorflow as tf
        import tensorflow.compat.v1 as v1

        return {"loss": v1.metrics.mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))}
