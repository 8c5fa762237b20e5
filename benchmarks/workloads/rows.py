"""Rows: one table of as many rows as one likes, of which the same few are looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.workloads.lookup import DIMENSION, FIELDS, Lookup

if TYPE_CHECKING:
    import tensorflow as tf


class Rows(Lookup):
    about = "lookup with one table for all fields, of --model_arg=rows=N rows, of which the same are looked up"
    check_steps = 200
    network = None

    def __init__(self, rows: int = 50_000) -> None:
        self.rows = rows

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        from ps_train import embeddings

        return self._click(embeddings.lookup("tables", features, rows=self.rows, dimension=DIMENSION))

    def peers_forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        import tensorflow as tf
        import tensorflow.compat.v1 as v1

        near_zero = v1.random_uniform_initializer(-0.05, 0.05)
        table = v1.get_variable("table", [self.rows, DIMENSION], initializer=near_zero)
        return self._click(tf.reshape(tf.nn.embedding_lookup(table, features), [-1, FIELDS, DIMENSION]))
