"""Does a step's time depend on the number of a table's rows?

    python benchmarks/table_rows.py --optimizer=adagrad --batch=1024 --rows=10000,10000000

Servers in one process; the same ids in every table, 26 log-uniform fields among its first rows, dimension 16, MLP
256-128-1; rounds of steps interleaved, medians and ranges.  Run it with the repository's root in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import tensorflow as tf

from ps_train import Arrays, Model, embeddings
from ps_train.models.layers import perceptron
from tests.support.cluster import InProcessCluster

FIELDS, DIMENSION, EXAMPLES = 26, 16, 1 << 15


class Lookup(Model):
    """Random clicks; `used` rows of a table of `rows` are looked up."""

    def __init__(self, rows: int, used: int) -> None:
        self.rows, self.used = rows, used

    def data(self, split: str, data_dir: str) -> Arrays:
        random = np.random.default_rng(1)
        ids = np.exp(random.uniform(0, np.log(self.used), size=(EXAMPLES, FIELDS))).astype(np.int64) - 1
        return Arrays(ids, random.integers(0, 2, EXAMPLES).astype(np.float32))

    def forward(self, features: tf.Tensor, training: bool) -> tf.Tensor:
        found = embeddings.lookup("table", features, rows=self.rows, dimension=DIMENSION)
        return perceptron(tf.reshape(found, [-1, FIELDS * DIMENSION]), [256, 128], 1)[:, 0]

    def loss(self, outputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="10000,10000000")
    parser.add_argument("--optimizer", default="adagrad")
    parser.add_argument("--update", default="async")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--num_ps", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    sizes = [int(text) for text in options.rows.split(",")]
    clusters = {}
    for rows in sizes:
        clusters[rows] = InProcessCluster(
            Lookup(rows, min(sizes)),
            options.num_ps,
            1,
            optimizer=options.optimizer,
            update=options.update,
            batch_size=options.batch,
            learning_rate=1e-3,
        )
        clusters[rows].start()
        clusters[rows].train(20)
    times: dict[int, list[float]] = {rows: [] for rows in sizes}
    for _ in range(options.rounds):
        for rows, cluster in clusters.items():
            start = time.monotonic()
            cluster.train(options.steps)
            times[rows].append((time.monotonic() - start) / options.steps * 1e3)
    for rows, found in times.items():
        ratios = [mine / first for mine, first in zip(found, times[sizes[0]], strict=True)]
        print(
            f"{rows:>12} rows  {statistics.median(found):7.2f} ms a step ({min(found):.2f} to {max(found):.2f})  "
            f"{statistics.median(ratios):.3f} of the first"
        )


if __name__ == "__main__":
    main()
