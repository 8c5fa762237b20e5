"""Batches of a size that is read when they are made: no example is lost or used twice, in the given order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays
from ps_train.base.bounds import Bounds
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.pipeline import training_batches
from ps_train.engine.updates.following.batch_size_control import WorkerBatchSize
from ps_train.engine.variables.worker_state import collect_local_state
from tests.support.data.recording import Numbers

SIZES = [8, 64, 16, 32, 64, 64, 8]
COUNT = 1003


def arrays() -> Arrays:
    return Arrays({"number": np.arange(COUNT), "text": np.arange(COUNT).astype("S")}, np.arange(COUNT))


def dataset() -> tf.data.Dataset:
    return tf.data.Dataset.range(COUNT).map(lambda number: (tf.stack([number, -number]), number))


def ragged() -> tf.data.Dataset:
    lengths = tf.data.Dataset.range(COUNT)
    return lengths.map(lambda number: (tf.RaggedTensor.from_row_lengths(tf.range(number % 3), [number % 3]), number))


def sparse() -> tf.data.Dataset:
    return tf.data.Dataset.range(COUNT).map(lambda number: (tf.sparse.from_dense(tf.one_hot(number % 5, 5)), number))


def read(data: Any, sizes: Sequence[int], ahead: int = 0, endless: bool = False, **fields: Any) -> list[Any]:
    """The batches that a worker gets, whose pulls bring these sizes, again and again."""
    fields = {"shard": WHOLE, "epochs": 1, "shuffle_buffer": 0, **fields}
    with tf.Graph().as_default():
        here = WorkerBatchSize(Bounds(8, 64), ahead)
        batches = training_batches(data(), batch_size=8, endless=endless, batching=here.batches, **fields)
        size = v1.placeholder(tf.int64, [])
        follow, found = here.follow(size), []
        fetches = {"features": batches.features, "labels": batches.labels, "examples": batches.examples}
        with v1.Session() as session:
            session.run(collect_local_state().initializers)
            session.run(batches.initializer, batches.feeds(3))
            for wanted in itertools.cycle(sizes):
                session.run(follow, {size: wanted})
                try:
                    found.append(session.run(fetches))
                except tf.errors.OutOfRangeError:
                    assert batches.ended is not None and batches.ended.is_set()
                    return found
                if found[-1]["examples"] == 0:
                    return found
    raise AssertionError


def labels_of(found: list[Any]) -> list[int]:
    return [int(label) for batch in found for label in batch["labels"]]


@pytest.mark.usual(2)
@pytest.mark.parametrize("data", [arrays, dataset, ragged, sparse, lambda: Numbers(COUNT)],
                         ids=["arrays", "dataset", "ragged", "sparse", "stream"])  # fmt: skip
def test_each_batch_has_the_size_of_its_step_and_the_examples_keep_their_order(data: Any) -> None:
    found = read(data, SIZES)
    if not isinstance(data(), tf.data.Dataset | Arrays):  # its labels are all 0
        assert sum(len(batch["features"]) for batch in found) == COUNT
        assert [int(number) for batch in found for number in batch["features"]] == list(range(COUNT))
    else:
        assert labels_of(found) == list(range(COUNT))
    sizes = [len(batch["labels"]) for batch in found]
    assert sizes[:-1] == [size for size, _ in zip(itertools.cycle(SIZES), sizes[:-1], strict=False)]
    assert sizes[-1] <= 64 and sum(batch["examples"] for batch in found) == COUNT


def test_features_of_any_structure_belong_to_their_labels() -> None:
    for batch in read(arrays, SIZES):
        np.testing.assert_array_equal(batch["features"]["number"], batch["labels"])
        assert [int(text) for text in batch["features"]["text"]] == batch["labels"].tolist()
    for batch in read(ragged, SIZES):
        lengths = [sum(map(len, rows)) for rows in batch["features"].to_list()]
        assert lengths == (batch["labels"] % 3).tolist()
    for batch in read(sparse, SIZES):
        assert batch["features"].dense_shape.tolist() == [len(batch["labels"]), 5]
        assert batch["features"].indices[:, 1].tolist() == (batch["labels"] % 5).tolist()


@pytest.mark.usual(1)
@pytest.mark.parametrize("ahead", [0, 2])
def test_in_some_shuffled_epochs_each_example_is_used_as_many_times_also_in_shards(ahead: int) -> None:
    seen = []
    for index in range(3):
        found = read(arrays, SIZES, ahead, shard=DataShard(index, 3), epochs=2, shuffle_buffer=100)
        seen += labels_of(found)
        assert labels_of(found) != sorted(labels_of(found))
    assert sorted(seen) == sorted(2 * list(range(COUNT)))


def test_without_reading_ahead_the_order_is_that_of_one_fixed_size() -> None:
    shuffled = read(arrays, SIZES, shuffle_buffer=100)
    assert labels_of(shuffled) == labels_of(read(arrays, [8], shuffle_buffer=100))


def test_after_the_end_endless_input_repeats_a_batch_without_examples() -> None:
    found = read(arrays, SIZES, endless=True)
    assert found[-1]["examples"] == 0 and len(found[-1]["labels"]) > 0
    assert labels_of(found[:-1]) == list(range(COUNT))


def test_an_empty_share_has_no_batch() -> None:
    assert read(lambda: Arrays(np.zeros((0, 2), np.float32), np.zeros(0, np.float32)), SIZES) == []
