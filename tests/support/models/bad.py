"""Models with one mistake, which is found by the chief, or only when the graph runs."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from tests.support.models.small import Linear


class MetricsOfNumbers(Linear):
    def metrics(self, outputs, labels):
        return {"error": tf.reduce_mean(outputs)}


class TestDataOfLists(Linear):
    __test__ = False

    def data(self, split, data_dir):
        return super().data(split, data_dir) if split == "train" else [1, 2, 3]


class NoLoss(Linear):
    loss = None


class OtherNames(Linear):
    def forward(self, x, train):
        return super().forward(x, train)


class Lists(Linear):
    """Its data are lists of Python."""

    def data(self, split, data_dir):
        arrays = super().data(split, data_dir)
        return Arrays(arrays.features.tolist(), arrays.labels.tolist())


class NotFinite(Linear):
    def data(self, split, data_dir):
        arrays = super().data(split, data_dir)
        arrays.features[5, 1] = np.nan
        return arrays


class OptimizerByName(Linear):
    def optimizer(self, name, learning_rate):
        return name


class _Generated(Linear):
    def examples(self):
        raise NotImplementedError

    def data(self, split, data_dir):
        types = (tf.TensorSpec([self.width], tf.float32), tf.TensorSpec([], tf.float32))
        return tf.data.Dataset.from_generator(self.examples, output_signature=types)


class RaisesMidway(_Generated):
    def examples(self):
        for number in range(200):
            if number == 150:
                raise RuntimeError(f"record {number} has no label")
            yield np.ones(self.width, np.float32), 1.0


class ChangesItsType(_Generated):
    def examples(self):
        for number in range(200):
            yield np.ones(self.width, np.float32), "many" if number == 150 else 1.0


class ChangesItsShape(_Generated):
    def examples(self):
        for number in range(200):
            yield np.ones(self.width + (number == 150), np.float32), 1.0


class HooksOfNumbers(Linear):
    def hooks(self):
        return [v1.train.SessionRunHook]


class NestedFeatures(Linear):
    def data(self, split, data_dir):
        arrays = super().data(split, data_dir)
        return tf.data.Dataset.from_tensor_slices(((arrays.features, arrays.features), arrays.labels))

    def forward(self, features, training):
        return super().forward(features[0], training)


class Signs(Linear):
    """Its labels are -1 and 1 in a cross-entropy that needs 0 and 1."""

    def data(self, split, data_dir):
        arrays = super().data(split, data_dir)
        return Arrays(arrays.features, np.sign(arrays.labels))

    def loss(self, outputs, labels):
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=outputs))
