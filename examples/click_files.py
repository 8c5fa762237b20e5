"""A click model on files of text or Parquet, as docs/clicks.md shows it: a linear part beside a perceptron.

    python -m ps_train.models.clicks --make clicks --lines 100000
    python -m ps_train --model=examples.click_files:ClickFiles --data_dir=clicks --batch_size=256 --max_steps=1200

A line has a label, 13 counts and 26 categories, separated by tabs, as in the Criteo challenge; any may be missing.
"""

import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train
from ps_train import embeddings, features, metrics
from ps_train.models.layers import perceptron

COUNTS, CATEGORIES, LEVELS = 13, 26, 24


class ClickFiles(ps_train.Model):
    default_optimizer = "adagrad"
    default_learning_rate = 0.05

    def __init__(self, buckets: int = 10_000, dimension: int = 8):
        self.buckets, self.dimension = buckets, dimension

    def data(self, split, data_dir):
        return ps_train.TextLines(f"{data_dir}/{split}*.txt", self.parse)

    def parse(self, lines):
        """Takes lines, string [n]; a missing count is -1, a missing category an empty string."""
        columns = tf.io.decode_csv(lines, [[0.0]] + [[-1.0]] * COUNTS + [[""]] * CATEGORIES, field_delim="\t")
        counts, categories = columns[1 : 1 + COUNTS], columns[1 + COUNTS :]
        return {"counts": tf.stack(counts, 1), "categories": tf.stack(categories, 1)}, columns[0]

    def forward(self, columns, training):
        """The logit of a click, [batch]."""
        levels = features.log_buckets(columns["counts"], count=LEVELS)  # 0 where a count is missing
        hashed, levelled = [self.buckets] * CATEGORIES, [LEVELS] * COUNTS
        weights = [
            embeddings.lookup(
                "wide/categories", columns["categories"], "sum", hash_buckets=hashed, dimension=1, initializer=0.0
            ),
            embeddings.lookup("wide/counts", levels, "sum", rows=levelled, dimension=1, initializer=0.0),
        ]
        vectors = [
            embeddings.lookup("deep/categories", columns["categories"], hash_buckets=hashed, dimension=self.dimension),
            embeddings.lookup("deep/counts", levels, rows=levelled, dimension=self.dimension),
        ]
        flat = tf.reshape(tf.concat(vectors, 1), [-1, (CATEGORIES + COUNTS) * self.dimension])
        with v1.variable_scope("deep"):
            return tf.squeeze(tf.add_n(weights) + perceptron(flat, [64, 32], outputs=1), 1)

    def optimizer(self, name, learning_rate):
        """Ftrl for the weights of the linear part, the job's optimizer for the rest."""
        return {"wide": v1.train.FtrlOptimizer(0.05), "": super().optimizer(name, learning_rate)}

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))

    def metrics(self, outputs, labels):
        return metrics.of_clicks(labels, outputs)

    def predictions(self, outputs):
        return {"probability": tf.sigmoid(outputs)}
