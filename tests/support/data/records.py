"""A model of TFRecord files, loaded by the processes as `tests.support.data.records:Records` and `:Lines`."""

from __future__ import annotations

import pathlib

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Model, TextLines, TFRecords


def write_records(path: pathlib.Path, first: int, last: int) -> None:
    """Writes a file with examples of the numbers first to last - 1; one has up to two ids."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(first, last):
            features = tf.train.Features()
            features.feature["number"].float_list.value.append(number)
            features.feature["ids"].int64_list.value.extend([number % 10] * (number % 3))
            writer.write(tf.train.Example(features=features).SerializeToString())


def write_lines(path: pathlib.Path, first: int, last: int) -> None:
    """Writes the same examples as text."""
    lines = [f"{number};{' '.join([str(number % 10)] * (number % 3))}" for number in range(first, last)]
    path.write_text("\n".join(["number;ids", *lines]) + "\n")


class Records(Model):
    """`total` becomes the sum of the numbers of all examples that were used, with SGD and a rate of 1."""

    default_optimizer = "sgd"
    default_learning_rate = 1.0

    def data(self, split: str, data_dir: str) -> TFRecords:
        return TFRecords(f"{data_dir}/{split}-*", self.parse)

    def parse(self, records: tf.Tensor):
        spec = {"ids": tf.io.VarLenFeature(tf.int64), "number": tf.io.FixedLenFeature([], tf.float32)}
        features = tf.io.parse_example(records, spec)
        return features, features.pop("number")

    def forward(self, features, training):
        rows = v1.get_variable("rows", [10, 2], initializer=v1.ones_initializer(), trainable=False)
        return tf.nn.safe_embedding_lookup_sparse(rows, features["ids"], combiner="sum")[:, 0]

    def loss(self, outputs, labels):
        total = v1.get_variable("total", [], initializer=v1.zeros_initializer())
        return -total * tf.reduce_sum(labels) + 0.0 * tf.reduce_sum(outputs)

    def metrics(self, outputs, labels):
        return {"ids": v1.metrics.mean(outputs)}


class Lines(Records):
    """The same of text files with the lines `number;ids`."""

    def data(self, split: str, data_dir: str) -> TextLines:
        return TextLines(f"{data_dir}/{split}-*", self.parse, has_header=True)

    def parse(self, records: tf.Tensor):
        number, ids = tf.io.decode_csv(records, [[0.0], [""]], field_delim=";")
        return {"ids": tf.strings.to_number(tf.strings.split(ids), tf.int64).to_sparse()}, number
