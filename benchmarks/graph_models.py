"""Models of any size, for `python -m benchmarks graph_size`: many variables, tables, columns or products.

    model = MODELS["tables"](100)
    train_op = model.plain_step(*v1.data.make_one_shot_iterator(model.batches()).get_next())

`Variables` and `Tables` are models of ps_train, which `python -m ps_train` trains.  `Products` and `Columns` are
Estimator programs.  The classic recipe and the single process train all of them by `plain_step`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from benchmarks.workloads.base import prototypes
from ps_train import Arrays, Model, embeddings, estimator
from ps_train.models.layers import dense

BATCH = 64
_WIDTH, _ROWS, _DIMENSION, _EXAMPLES, _RATE = 64, 1000, 8, 4096, 0.05


class _Labels(Model):
    """A classifier by logits [batch, classes], with one metric."""

    def loss(self, outputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs))

    def metrics(self, outputs: tf.Tensor, labels: tf.Tensor) -> Any:
        return {"loss": v1.metrics.mean(self.loss(outputs, labels))}

    def batches(self) -> tf.data.Dataset:
        """Returns endless batches."""
        arrays: Any = self.data("train", "")
        return tf.data.Dataset.from_tensor_slices((arrays.features, arrays.labels)).repeat().batch(BATCH).prefetch(2)


class Variables(_Labels):
    """`size` variables of 64x64 in dense residual layers, and two of the last layer; Momentum."""

    default_optimizer, default_learning_rate = "momentum", 0.01

    def __init__(self, size: int = 100) -> None:
        self.size = size

    def data(self, split: str, data_dir: str) -> Arrays:
        return prototypes(_WIDTH, 10, _EXAMPLES, split)

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        for number in range(self.size):
            weights = v1.get_variable(f"w{number}", [_WIDTH, _WIDTH], initializer=v1.glorot_uniform_initializer())
            features += tf.nn.relu(tf.matmul(features, weights)) / self.size  # trains at any depth
        return dense(features, 10, "logits")

    def plain_step(self, features: Any, labels: Any) -> Any:
        """Returns the train operation of TensorFlow's own variables and optimizer."""
        loss = self.loss(self.forward(features, True), labels)
        return v1.train.MomentumOptimizer(0.01, 0.9).minimize(loss, v1.train.get_or_create_global_step())


class Tables(_Labels):
    """`size` tables of 1,000 rows of 8, one for each column of ids, and a dense layer; Adagrad."""

    default_optimizer, default_learning_rate = "adagrad", _RATE

    def __init__(self, size: int = 26) -> None:
        self.size = size

    def data(self, split: str, data_dir: str) -> Arrays:
        draw = np.random.default_rng(1 if split == "train" else 2)
        ids = draw.integers(0, _ROWS, (_EXAMPLES, self.size))
        return Arrays(ids, (ids[:, 0] % 2).astype(np.int64))

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        rows = [
            embeddings.lookup(f"table{field}", features[:, field], rows=_ROWS, dimension=_DIMENSION)
            for field in range(self.size)
        ]
        return dense(tf.concat(rows, 1), 2, "logits")

    def plain_step(self, features: Any, labels: Any) -> Any:
        """Returns the train operation of tables as one writes them without ps_train."""
        rows = [_rows(f"table{field}", features[:, field]) for field in range(self.size)]
        loss = self.loss(dense(tf.concat(rows, 1), 2, "logits"), labels)
        return v1.train.AdagradOptimizer(_RATE).minimize(loss, v1.train.get_or_create_global_step())


class Products:
    """One table of 1,000 rows of 8, and `size` products of two of an example's rows, one after the other; Adagrad."""

    def __init__(self, size: int = 400) -> None:
        self.size = size
        # As an attentional factorization machine: all pairs of so many fields.
        self._fields = next(fields for fields in range(2, size + 3) if fields * (fields - 1) // 2 >= size)

    def batches(self) -> tf.data.Dataset:
        """Returns endless batches of ids [batch, fields] and labels [batch, 1]."""
        ids = np.random.default_rng(1).integers(0, _ROWS, (_EXAMPLES, self._fields))
        labels = (ids[:, :1] % 2).astype(np.float32)
        return tf.data.Dataset.from_tensor_slices(({"ids": ids}, labels)).repeat().batch(BATCH).prefetch(2)

    def loss(self, features: Any, labels: Any) -> tf.Tensor:
        """Returns the loss of the model."""
        rows = _rows("table", features["ids"])
        pairs = [(i, j) for i in range(self._fields) for j in range(i + 1, self._fields)][: self.size]
        products = [tf.multiply(rows[:, i, :], rows[:, j, :]) for i, j in pairs]
        logits = dense(tf.add_n(products), 1, "logits")
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))

    def plain_step(self, features: Any, labels: Any) -> Any:
        """Returns the train operation."""
        loss = self.loss(features, labels)
        return v1.train.AdagradOptimizer(_RATE).minimize(loss, v1.train.get_or_create_global_step())

    def estimator(self, config: Any) -> Any:
        """Returns the Estimator."""

        def model_fn(features: Any, labels: Any, mode: str) -> Any:
            loss = self.loss(features, labels)
            train_op = v1.train.AdagradOptimizer(_RATE).minimize(loss, v1.train.get_global_step())
            return estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

        return estimator.Estimator(model_fn, config=config)


class Columns:
    """A canned DNNLinearCombinedClassifier with `size` columns of 1,000 hash buckets, each both wide and deep."""

    def __init__(self, size: int = 26) -> None:
        self.size = size

    def batches(self) -> tf.data.Dataset:
        """Returns endless batches of strings and labels [batch, 1]."""
        ids = np.random.default_rng(1).integers(0, _ROWS, (_EXAMPLES, self.size))
        features = {f"column{number}": ids[:, [number]].astype(str) for number in range(self.size)}
        labels = (ids[:, :1] % 2).astype(np.int64)
        return tf.data.Dataset.from_tensor_slices((features, labels)).repeat().batch(BATCH).prefetch(2)

    def estimator(self, config: Any) -> Any:
        """Returns the Estimator."""
        column = tf.feature_column
        wide = [column.categorical_column_with_hash_bucket(f"column{number}", _ROWS) for number in range(self.size)]
        deep = [column.embedding_column(one, _DIMENSION) for one in wide]
        return estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[64, 32], config=config
        )

    def plain_step(self, features: Any, labels: Any) -> Any:
        """Returns the train operation of the canned model_fn."""
        v1.train.get_or_create_global_step()
        made = self.estimator(estimator.RunConfig("model"))
        return made.model_fn(features, labels, estimator.ModeKeys.TRAIN, made.config).train_op


def _rows(name: str, ids: tf.Tensor) -> tf.Tensor:
    near_zero = v1.random_uniform_initializer(-0.05, 0.05)
    return tf.nn.embedding_lookup(v1.get_variable(name, [_ROWS, _DIMENSION], initializer=near_zero), ids)


MODELS: dict[str, Any] = {"variables": Variables, "tables": Tables, "columns": Columns, "products": Products}
