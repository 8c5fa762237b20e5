"""What --sharding=dynamic cannot be together with, and what it says then."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train import Arrays, ConfigError, Job
from ps_train.data.pipeline import DataSource
from ps_train.sharding.readers import described_shards, reader_of


@pytest.mark.parametrize(
    "fields, text",
    [
        ({"sharding": "both"}, "sharding=both is not valid: use one of static, dynamic."),
        ({"shard_examples": 64}, "shard_examples=64 is for sharding=dynamic, but sharding=static."),
        ({"sharding": "dynamic", "shard_examples": 16}, "shard_examples=16 is less than batch_size=32: a batch"),
        ({"sharding": "dynamic", "shard_examples": 0}, "shard_examples=0 is not valid: use a number of at least 1."),
        ({"sharding": "dynamic", "accumulate": 2}, "accumulate=2 is not possible with sharding=dynamic"),
    ],
)
def test_bad_values_are_named_in_one_line(fields, text):
    with pytest.raises(ConfigError) as caught:
        Job(**fields)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


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
