"""The labels of all batches of an input, with a check of each batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Job
from ps_train.data.shards.shard_batches import ShardedBatches
from ps_train.data.shards.shard_layout import Assignment, progress_value
from ps_train.data.shards.shard_readers import reader_of

Check = Callable[[Any, Any], None]


def labels_of(make: Callable[[], Any], check: Check, most: int) -> list[int]:
    """The labels of the batches that `make` makes, until their end, or `most` examples."""
    seen: list[int] = []
    with tf.Graph().as_default(), v1.Session() as session:
        batches = make()
        session.run(batches.initializer, batches.feeds(3))
        while len(seen) < most:
            try:
                features, labels = session.run((batches.features, batches.labels))
            except tf.errors.OutOfRangeError:
                break
            check(features, labels)
            seen += labels.tolist()
    return seen


def labels_of_shards(make: Callable[[], Any], check: Check, job: Job) -> tuple[int, list[int]]:
    """The number of shards of the data that `make` makes, and the labels of all of them."""
    seen: list[int] = []
    with tf.Graph().as_default(), v1.Session() as session:
        sharded = ShardedBatches(reader_of(make(), job), 32)
        for shard in range(sharded.count):
            sharded.assign(Assignment(shard, progress_value(0), progress_value(1)))
        batches = sharded.batches
        session.run(batches.initializer)
        fetches = (batches.features, batches.labels, batches.examples, batches.progress)
        while (found := session.run(fetches))[3][0] >= 0:
            features, labels, examples, _ = found
            if examples:
                check(features, labels)
                seen += labels.tolist()
    return sharded.count, seen
