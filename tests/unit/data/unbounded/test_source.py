from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import ConfigError, DataError, Job, ModelError
from ps_train.data import Row, UnboundedSource
from ps_train.data.data_shard import WHOLE
from ps_train.data.pipeline import training_batches
from ps_train.data.shards.shard_batches import ShardedBatches
from ps_train.data.shards.shard_layout import Assignment
from ps_train.data.shards.shard_readers import reader_of
from ps_train.data.split import Split
from tests.support.data.unbounded import Memory, parse

JOB = Job(sharding="dynamic", batch_size=4)


class Keyed(UnboundedSource):
    def __init__(self, parse, fields):
        super().__init__("keyed", parse, fields)

    def partitions(self):
        return 1

    def read(self, partition, offset, n):
        return []


def batch_of(source, rows):
    """The features and labels that the pipeline makes of some rows."""
    with tf.Graph().as_default(), v1.Session() as session:
        reader = reader_of(source, JOB)
        sharded = ShardedBatches(reader, 4)
        batches = sharded.batches
        batch = Assignment(0, rows[0].offset + 1, rows[-1].after + 1)
        reader.hold(batch, rows)
        sharded.assign(batch)
        session.run(batches.initializer)
        return session.run([batches.features, batches.labels, batches.examples, batches.progress])


def test_parse_gets_the_fields_that_are_asked_for():
    def parsed(columns):
        assert set(columns) == {"key", "timestamp"}
        return columns, tf.cast(columns["timestamp"], tf.float32)

    rows = [Row(b"1", 7, key=b"k", timestamp=1_700_000_000_123), Row(b"2", 8)]
    features, labels, examples, progress = batch_of(Keyed(parsed, ["key", "timestamp"]), rows)
    assert features["key"].tolist() == [b"k", b""]
    assert features["timestamp"].tolist() == [1_700_000_000_123, 0]
    assert labels.dtype == np.float32 and examples == 2
    assert progress.tolist() == [0, 8, 10]


def test_a_row_that_cannot_be_parsed_is_named_and_the_offset_goes_on(caplog):
    source = Keyed(lambda columns: parse(columns["value"]), ["value", "key"])
    features, _, examples, progress = batch_of(source, [Row(b"1", 7), Row(b"x", 8), Row(b"3", 9)])
    assert features.tolist() == [1, 3] and examples == 2 and progress.tolist() == [0, 8, 11]
    assert "keyed partition 0 offset 8: 'x', which is not a number; the row is skipped" in caplog.text


def test_a_batch_of_malformed_rows_stands_for_no_example():
    _, _, examples, progress = batch_of(Memory(), [Row(b"x", 7)])
    assert examples == 0 and progress.tolist() == [0, 8, 9]


def test_too_many_malformed_rows_end_the_job():
    source = Memory()
    source.set_max_bad_lines(1)
    with pytest.raises(tf.errors.OpError, match=r"offset 8: 'y'.*max_bad_lines=1"):
        batch_of(source, [Row(b"x", 7), Row(b"y", 8)])


def test_the_types_of_a_batch_are_known_without_a_row():
    with tf.Graph().as_default():
        batches = training_batches(Memory(), WHOLE, 4, epochs=0, shuffle_buffer=0)
        assert batches.features.shape.as_list() == [None] and batches.features.dtype == tf.int64


@pytest.mark.parametrize(
    "fields, text",
    [
        ({"epochs": 2}, "epochs=2 is for data that end, but data.. returned memory"),
        ({"shard_examples": 8}, "shard_examples=8 is for data that end"),
        ({"batch_size": "4..16"}, "batch_size=4..16 is not possible with memory"),
    ],
)
def test_flags_that_do_not_fit_are_refused(fields, text):
    with pytest.raises(ConfigError, match=text):
        reader_of(Memory(), Job(**{"sharding": "dynamic", "batch_size": 4, **fields}))


@pytest.mark.parametrize(
    "split, text",
    [
        (Split("train", "", has_shards=False), "use --sharding=dynamic"),
        (Split("test", ""), "has no end, so it could never be scored"),
    ],
)
def test_a_split_that_cannot_be_unbounded_is_refused(split, text):
    with pytest.raises(ModelError, match=text):
        split.check(Memory())


@pytest.mark.parametrize("name, fields, text", [("a b", (), "not a name"), ("a", "value", "fields='value'")])
def test_wrong_arguments_are_refused(name, fields, text):
    class Named(Memory):
        def __init__(self):
            UnboundedSource.__init__(self, name, parse, fields)

    with pytest.raises(DataError, match=text):
        Named()
