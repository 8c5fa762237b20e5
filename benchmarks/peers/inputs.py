"""The input that all TensorFlow contenders share: in memory, sharded, shuffled, repeated, batched, prefetched.

dataset = training(workload, index=0, count=2)      # in any graph, or in a dataset function
"""

from __future__ import annotations

import tensorflow as tf

from benchmarks.workloads.base import SHUFFLE_BUFFER, Workload


def training(workload: Workload, index: int = 0, count: int = 1, seed: int | None = 1) -> tf.data.Dataset:
    """Endless batches of the `index`-th of `count` shares; without a seed in an order that is new in every process."""
    arrays = workload.data("train", "")
    dataset = tf.data.Dataset.from_tensor_slices((arrays.features, arrays.labels)).shard(count, index)
    dataset = dataset.shuffle(min(SHUFFLE_BUFFER, len(arrays) // count), seed=seed).repeat()
    options = tf.data.Options()
    options.autotune.enabled = False  # its thread costs more than it gains here; ps_train does without it, too
    return dataset.batch(workload.batch_size, drop_remainder=True).prefetch(2).with_options(options)
