"""A model whose data are empty, endless or batched, loaded by the processes as `tests.support.data.bad:Data`."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.data_shard import DataShard
from ps_train.data.stream import RandomAccessChunks, Stream
from tests.support.models.small import Linear


class Nothing(Stream):
    """A stream of files that are all empty; only reading them tells."""

    def chunks(self, shard: DataShard, seed: tf.Tensor | None) -> tf.data.Dataset:
        chunks = tf.data.Dataset.range(0).take_while(lambda number: True).batch(4)
        return chunks.map(lambda numbers: (tf.zeros([tf.size(numbers), 3]), tf.cast(numbers, tf.float32)))

    def pieces(self) -> RandomAccessChunks:
        return RandomAccessChunks(0, "nothing", lambda piece: (tf.zeros([0, 3]), tf.zeros([0])))


class Data(Linear):
    """Its data of each split are of the kind that its argument names."""

    def __init__(self, train: str = "arrays", test: str = "arrays") -> None:
        super().__init__()
        self.kinds = {"train": train, "test": test}

    def data(self, split: str, data_dir: str):
        arrays = super().data(split, data_dir)
        dataset = tf.data.Dataset.from_tensor_slices((arrays.features, arrays.labels))
        return {
            "arrays": lambda: arrays,
            "none": lambda: dataset.take(0),
            "no_examples": lambda: dataset.filter(lambda x, y: y > np.inf),
            "nothing": Nothing,
            "repeated": dataset.repeat,
            "endless": lambda: dataset.repeat().batch(1000).take_while(lambda x, y: True).unbatch(),
            "batched": lambda: dataset.batch(8),
        }[self.kinds[split]]()

    def metrics(self, outputs, labels):
        return {"labels": v1.metrics.mean(labels)}
