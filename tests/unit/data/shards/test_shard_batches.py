"""Batches of assigned shards, with their progress."""

from __future__ import annotations

import dataclasses
import gzip

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, ConfigError, Job
from ps_train.data.batching import ONE_SIZE
from ps_train.data.criteo.files import SplitFiles, SplitPart
from ps_train.data.criteo.reader import Criteo
from ps_train.data.dynamic_batches import DynamicBatches
from ps_train.data.shards.shard_batches import ShardedBatches
from ps_train.data.shards.shard_layout import Assignment, progress_value
from ps_train.data.shards.shard_readers import reader_of
from ps_train.data.stream import RandomAccessChunks, Stream


class Uneven(Stream):
    """Piece i has `lengths[i]` numbers, 100 * i and so on; there may be none."""

    def __init__(self, *lengths):
        self.lengths = lengths

    def chunks(self, share, seed):
        raise NotImplementedError

    def pieces(self):
        def read(number):
            numbers = 100 * number + tf.range(tf.constant(self.lengths, tf.int64)[number])
            return {"x": numbers[:, None] + tf.zeros([1, 2], tf.int64)}, numbers

        return RandomAccessChunks(len(self.lengths), "uneven", read)


class Lists(Uneven):
    """Example n has a list of n % 3 numbers, each n, as a ragged and as a sparse feature."""

    def pieces(self):
        dense = super().pieces()

        def read(number):
            numbers = dense.read(number)[1]
            lists = tf.RaggedTensor.from_row_lengths(tf.repeat(numbers, numbers % 3), numbers % 3)
            return {"ragged": lists, "sparse": lists.to_sparse()}, numbers

        return dataclasses.replace(dense, read=read)


class Reading:
    """A session that reads what is given."""

    def __init__(self, data, batches=4, batching=ONE_SIZE, **fields):
        job = Job(sharding="dynamic", **{"batch_size": 4, "shuffle_buffer": 0, **fields})
        with tf.Graph().as_default():
            self.batches = ShardedBatches(reader_of(data() if callable(data) else data, job), batches, batching)
            batches = self.batches.batches
            self._fetches = (batches.labels, batches.examples, batches.progress, batches.features)
            self._session = v1.Session()
            self._session.run(batches.initializer)

    def next(self):
        labels, examples, ticket, _ = self._session.run(self._fetches)
        return list(labels), examples, tuple(ticket)

    def all_of(self, *assignments):
        """Labels of each batch until nothing more was given, and their tickets."""
        for assignment in assignments:
            self.batches.assign(assignment)
        found = []
        while (batch := self.next())[2][0] >= 0:
            found.append(batch)
        return found


def test_a_batch_is_of_one_shard_and_its_progress_says_which_part():
    reading = Reading(Arrays(np.zeros([23, 2]), np.arange(23)), shard_examples=10)
    found = reading.all_of(
        Assignment(1, progress_value(0, 4), progress_value(1)), Assignment(2, progress_value(5), progress_value(6))
    )
    assert found == [
        ([14, 15, 16, 17], 4, (1, progress_value(0, 4), progress_value(0, 8))),
        ([18, 19], 2, (1, progress_value(0, 8), progress_value(1))),
        ([20, 21, 22], 3, (2, progress_value(5), progress_value(6))),
    ]


def test_what_ends_within_a_shard_ends_there():
    reading = Reading(Arrays(np.zeros(23), np.arange(23)), shard_examples=10)
    found = reading.all_of(Assignment(0, progress_value(0), progress_value(0, 8)))
    assert [ticket for _, _, ticket in found] == [
        (0, progress_value(0), progress_value(0, 4)),
        (0, progress_value(0, 4), progress_value(0, 8)),
    ]


def test_where_nothing_was_given_a_batch_comes_that_stands_for_nothing():
    reading = Reading(Arrays(np.zeros(23), np.arange(23)))
    assert reading.next()[1:] == (0, (-1, 0, 0))
    reading.batches.assign(Assignment(0, progress_value(0), progress_value(1)))
    assert reading.next()[1] == 4


def test_what_was_given_before_a_new_beginning_is_forgotten():
    reading = Reading(Arrays(np.zeros(23), np.arange(23)))
    reading.batches.assign(Assignment(0, progress_value(0), progress_value(1)))
    reading.batches.reset()
    assert reading.next()[1:] == (0, (-1, 0, 0))


def test_a_chunk_of_a_stream_is_a_shard_and_its_batches_are_counted_once_it_was_read():
    reading = Reading(lambda: Uneven(9, 0, 3))
    first, empty = (
        Assignment(0, progress_value(0), progress_value(1)),
        Assignment(1, progress_value(0), progress_value(1)),
    )
    assert reading.batches.batches_in(first) == 1, "not known yet"
    assert reading.all_of(first, empty, Assignment(2, progress_value(0, 1), progress_value(1))) == [
        ([0, 1, 2, 3], 4, (0, progress_value(0), progress_value(0, 4))),
        ([4, 5, 6, 7], 4, (0, progress_value(0, 4), progress_value(0, 8))),
        ([8], 1, (0, progress_value(0, 8), progress_value(1))),
        ([0], 0, (1, progress_value(0), progress_value(1))),
        ([201, 202], 2, (2, progress_value(0, 1), progress_value(1))),
    ]
    assert reading.batches.batches_in(first) == 3
    assert reading.batches.batches_in(Assignment(0, progress_value(0, 4), progress_value(0, 8))) == 1


def test_chunks_and_their_examples_are_shuffled_again_in_each_epoch_and_parts_fit_together():
    orders = []
    for number_of_pass in range(2):
        reading = Reading(lambda: Uneven(9, 7, 8), shuffle_buffer=1)
        parts = [Assignment(1, progress_value(number_of_pass), progress_value(number_of_pass, 4))]
        parts += [
            Assignment(s, progress_value(number_of_pass, 4 * (s == 1)), progress_value(number_of_pass + 1))
            for s in (0, 1, 2)
        ]
        orders.append([label for labels, _, _ in reading.all_of(*parts) for label in labels])
        assert sorted(orders[-1]) == [*range(9), *range(100, 107), *range(200, 208)]
    assert orders[0] != orders[1]


@pytest.mark.parametrize("batching", [ONE_SIZE, DynamicBatches(2, 8, lambda: tf.constant(4, tf.int64), 0)])
def test_ragged_and_sparse_features_stay_with_their_labels(batching):
    reading = Reading(lambda: Lists(9, 0, 8), shuffle_buffer=1, batching=batching)
    for shard in range(3):
        reading.batches.assign(Assignment(shard, progress_value(0), progress_value(1)))
    seen = []
    while (found := reading._session.run(reading._fetches))[2][0] >= 0:
        labels, examples, _, features = found
        sparse = features["sparse"]
        lists = [
            [value for (row, _), value in zip(sparse.indices, sparse.values, strict=True) if row == at]
            for at in range(sparse.dense_shape[0])
        ]
        if examples:
            assert features["ragged"].to_list() == lists == [[label] * (label % 3) for label in labels]
            seen += list(labels)
    assert sorted(seen) == [*range(9), *range(200, 208)]


def criteo(directory, *names):
    line = "1" + "\t7" * 13 + "\tdeadbeef" * 26 + "\n"
    for number, name in enumerate(names):
        text = "".join(line.replace("7", str(10 * number + row), 1) for row in range(10)).encode()
        (directory / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return Criteo(SplitFiles(tuple(directory / name for name in names), SplitPart.ALL), block_bytes=500)


def test_the_blocks_of_criteo_files_are_all_lines_once(tmp_path):
    reading = Reading(lambda: criteo(tmp_path, "train1", "train2"), shuffle_buffer=5)
    every = [Assignment(shard, progress_value(0), progress_value(1)) for shard in range(reading.batches.count)]
    assert len(every) > 4
    for assignment in every:
        reading.batches.assign(assignment)
    seen = []
    while True:
        _, examples, ticket, features = reading._session.run(reading._fetches)
        if ticket[0] < 0:
            break
        seen += list(features["integers"][: int(examples), 0])
    assert sorted(seen) == list(range(20))


def test_a_gzipped_file_and_a_size_of_shards_for_a_stream_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="sharding=dynamic needs data with random access"):
        Reading(lambda: criteo(tmp_path, "train.gz"))
    with pytest.raises(ConfigError, match=r"shard_examples=8 is for Arrays, but data\(\) returned Uneven"):
        Reading(lambda: Uneven(3), shard_examples=8)
