"""Big: a table that no worker could hold beside its work: 20 million rows of 16, 1.3 GB, and as much for Adagrad."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.workloads.base import TEST_EXAMPLES
from benchmarks.workloads.lookup import DIMENSION, FIELDS, Lookup
from ps_train import Arrays

if TYPE_CHECKING:
    import tensorflow as tf

ROWS = 20_000_000


class Big(Lookup):
    about = "26 fields that share 20 M rows of 16, MLP 416-256-128-1, Adagrad, batch 1024"
    network = None

    def __init__(self, rows: int = ROWS) -> None:
        self.rows = rows

    def data(self, split: str, data_dir: str) -> Arrays:
        count = self.train_examples if split == "train" else TEST_EXAMPLES
        generator = np.random.default_rng(12 if split == "train" else 13)
        ids = np.exp(generator.uniform(0, np.log(self.rows), (count, FIELDS))).astype(np.int64) - 1
        return Arrays(ids, generator.integers(0, 2, count).astype(np.float32))

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        from ps_train import embeddings

        return self._click(embeddings.lookup("table", features, rows=self.rows, dimension=DIMENSION))
