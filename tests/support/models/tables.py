"""A model of tables, the same model on plain variables, and what optimizers do to rows, in numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, embeddings
from ps_train.config.optimizer_arguments import ARGUMENTS
from ps_train.modeling.tables.row_order import positions_of
from tests.support.models.small import Linear

ROWS, DIMENSION, COMBINERS = 40, 3, ("sum", "mean", "sqrtn")
MISSING = -1
"""In ids: there is none here; a bag may be empty."""


def bags_of_ids(count: int, seed: int = 5) -> np.ndarray:
    """Up to 4 ids an example, some twice, the first and the last one often, and some examples without any."""
    random = np.random.default_rng(seed)
    ids = np.minimum(random.geometric(0.1, size=(count, 4)) - 1, ROWS - 1)
    ids[random.random(ids.shape) < 0.1] = ROWS - 1
    ids[random.random(ids.shape) < 0.3] = MISSING
    ids[::7] = MISSING
    ids[1::7] = [0, 0, ROWS - 1, ROWS - 1]
    return ids


class Bags(Linear):
    """Three tables, one for each combiner, of the same bags of weighted ids; nothing else is learned."""

    def __init__(self, count: int = 120, dense: bool = False) -> None:
        self.count, self.dense = count, dense

    def data(self, split, data_dir):
        random = np.random.default_rng(6)
        ids = bags_of_ids(self.count)
        return Arrays(ids, random.normal(size=self.count).astype(np.float32))

    def forward(self, features, training):
        outputs = 0.0
        for number, combiner in enumerate(COMBINERS):
            combined = self.combined(combiner, features, combiner)
            outputs += tf.linalg.matvec(combined, tf.constant(self.direction(number)))
        if self.dense:
            outputs += v1.get_variable("bias", [], initializer=v1.zeros_initializer())
        return outputs

    @staticmethod
    def direction(number: int) -> np.ndarray:
        return np.array([1.0, -0.5, 0.25], np.float32) * (number + 1)

    def combined(self, name, ids, combiner):
        ragged = tf.ragged.boolean_mask(ids, tf.not_equal(ids, MISSING))
        weights = tf.cast(ragged % 3 + 1, tf.float32)
        return embeddings.lookup(
            name, ragged, combiner, weights, rows=ROWS, dimension=DIMENSION, initializer=v1.random_normal_initializer()
        )


class PlainBags(Bags):
    """The same with variables that are whole, and TensorFlow's own lookup."""

    def combined(self, name, ids, combiner):
        table = v1.get_variable(name, [ROWS, DIMENSION])
        present = tf.where(tf.not_equal(ids, MISSING))
        found, shape = tf.gather_nd(ids, present), tf.shape(ids, tf.int64)
        sparse = tf.SparseTensor(present, positions_of(found, ROWS), shape)
        weights = tf.SparseTensor(present, tf.cast(found % 3 + 1, tf.float32), shape)
        combined = tf.nn.embedding_lookup_sparse(table, sparse, weights, combiner=combiner)
        return tf.pad(combined, [[0, tf.cast(shape[0], tf.int32) - tf.shape(combined)[0]], [0, 0]])


class Counted(Linear):
    """Example i looks up row i, and each use adds 1 to the row."""

    count = 200

    def __init__(self) -> None:
        """Has no other number of examples."""

    def data(self, split, data_dir):
        return Arrays(np.arange(self.count, dtype=np.int64), np.zeros(self.count, np.float32))

    def ids(self, features):
        return features

    def forward(self, features, training):
        ids = self.ids(features)
        rows = embeddings.lookup(
            "t", ids[:, None], "sum", rows=self.count, dimension=2, initializer=v1.zeros_initializer()
        )
        return rows, ids

    def loss(self, outputs, labels):
        return -tf.reduce_sum(outputs[0])


class AddedBags(Bags):
    """A loss whose gradient does not depend on the tables: updates add up, whatever their order."""

    def loss(self, outputs, labels):
        return tf.reduce_mean(outputs * labels)


def outputs_of_bags(tables: dict[str, np.ndarray], ids: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The outputs of `Bags` without its bias; of each table, by how much each id of an example counts."""
    outputs = np.zeros(len(ids))
    factors = {}
    for number, combiner in enumerate(COMBINERS):
        weights = np.where(ids == MISSING, 0, ids % 3 + 1).astype(float)
        norms = {"sum": 1.0, "mean": weights.sum(1), "sqrtn": np.sqrt((weights**2).sum(1))}[combiner]
        norms = np.broadcast_to(norms, len(ids))
        factors[combiner] = np.divide(weights, norms[:, None], out=np.zeros_like(weights), where=norms[:, None] > 0)
        rows = tables[combiner][positions_of(np.maximum(ids, 0), ROWS)]
        outputs += np.einsum("bk,bkd,d->b", factors[combiner], rows, Bags.direction(number))
    return outputs, factors


def gradients_of_bags(
    tables: dict[str, np.ndarray], ids: np.ndarray, labels: np.ndarray, added: bool = False
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of each table of `Bags` (or `AddedBags`) the rows that a batch touches, and their gradient, by hand."""
    outputs, factors = outputs_of_bags(tables, ids)
    errors = (labels if added else 2 * (outputs - labels)) / len(ids)
    found = {}
    for number, combiner in enumerate(COMBINERS):
        gradient = np.zeros_like(tables[combiner])
        each = (errors[:, None] * factors[combiner])[..., None] * Bags.direction(number)
        np.add.at(gradient, positions_of(np.maximum(ids, 0), ROWS), each)
        touched = np.unique(positions_of(ids[ids != MISSING], ROWS))
        found[combiner] = touched, gradient[touched]
    return found


class NumpyRule:
    """What an optimizer does to some rows of a table, in float64; its parameters are those of `make_optimizer`."""

    def __init__(self, name: str, rate: float, shape: tuple[int, ...]) -> None:
        self.rate, self.steps = rate, 0
        self.a, self.b = np.zeros(shape), np.zeros(shape)
        start = ARGUMENTS[name].get("initial_accumulator_value")
        if start is not None:
            self.a = np.full(shape[:1] if name == "rowwise_adagrad" else shape, float(start.default))
        self.apply: Callable[[np.ndarray, np.ndarray, np.ndarray], None] = getattr(self, name)

    def sgd(self, table, rows, g):
        table[rows] -= self.rate * g

    def momentum(self, table, rows, g):
        self.a[rows] = 0.9 * self.a[rows] + g
        table[rows] -= self.rate * self.a[rows]

    def adagrad(self, table, rows, g):
        self.a[rows] += g**2
        table[rows] -= self.rate * g / np.sqrt(self.a[rows])

    def rowwise_adagrad(self, table, rows, g):
        self.a[rows] += (g**2).mean(axis=1)
        table[rows] -= self.rate * g / np.sqrt(self.a[rows])[:, None]

    def lazy_adam(self, table, rows, g):
        self.steps += 1
        self.a[rows] = 0.9 * self.a[rows] + 0.1 * g
        self.b[rows] = 0.999 * self.b[rows] + 0.001 * g**2
        rate = self.rate * np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
        table[rows] -= rate * self.a[rows] / (np.sqrt(self.b[rows]) + 1e-8)

    def ftrl(self, table, rows, g, l1=0.0, l2=0.0):
        grown = self.a[rows] + g**2
        self.b[rows] += g - (np.sqrt(grown) - np.sqrt(self.a[rows])) / self.rate * table[rows]
        self.a[rows] = grown
        linear = self.b[rows]
        shrunk = np.sign(linear) * np.maximum(np.abs(linear) - l1, 0)
        table[rows] = -shrunk / (np.sqrt(grown) / self.rate + 2 * l2)
