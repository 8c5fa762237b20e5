"""A model of one table, for tests of what a model may not do with it."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, embeddings
from tests.support.clusters.cluster import InProcessCluster
from tests.support.models.small import Linear


class Table(Linear):
    """A table of 10 rows, a dense vector, and whatever a test does with them."""

    def __init__(self, use=lambda rows, features: rows, largest: int = 9, **declaration) -> None:
        self.use, self.largest = use, largest
        self.declaration = {"rows": 10, "dimension": 2, **declaration}

    def data(self, split, data_dir):
        ids = np.arange(64, dtype=np.int64) % (self.largest + 1)
        return Arrays(ids, np.ones(64, np.float32))

    def forward(self, features, training):
        rows = self.use(embeddings.lookup("ads", features, **self.declaration), features)
        return tf.linalg.matvec(rows, v1.get_variable("w", [2]))


def built(model: Table, **fields) -> InProcessCluster:
    return InProcessCluster(model, 2, 1, **{"optimizer": "sgd", "batch_size": 8, **fields})
