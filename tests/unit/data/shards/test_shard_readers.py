"""Data that can be read at any place, and the description of their shards that all tasks compare."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train import Arrays, ConfigError, Job
from ps_train.data.pipeline import DataSource
from ps_train.data.shards.shard_readers import described_shards, reader_of


def test_data_that_cannot_be_read_at_any_place_are_refused():
    job = Job(sharding="dynamic", sources={"sharding": "the command line"})
    with tf.Graph().as_default(), pytest.raises(ConfigError) as caught:
        reader_of(tf.data.Dataset.range(5), job)
    assert str(caught.value).startswith("sharding=dynamic (from the command line) needs data with random access")
    assert "use --sharding=static" in str(caught.value)


def test_all_tasks_must_cut_the_data_alike():
    source = DataSource(lambda: Arrays(np.zeros(1000), np.zeros(1000)))
    one, other, static = Job(sharding="dynamic"), Job(sharding="dynamic", batch_size=8), Job()
    assert described_shards(one, source) != described_shards(other, source)
    assert described_shards(static, source) == {}
    same = Job(sharding="dynamic", batch_size=8, shard_examples=32)
    assert described_shards(one, source) == described_shards(same, source), "the batch alone may differ"
