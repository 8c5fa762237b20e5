"""Data that can be read at any place, and the description of their shards that all tasks compare."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train import Arrays, ConfigError, Job
from ps_train.cluster.membership.job_diff import diff_configs
from ps_train.data.pipeline import DataSource
from ps_train.data.shards.shard_readers import described_shards, reader_of
from ps_train.data.split import Split


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


@pytest.mark.parametrize("sharding", ["static", "dynamic"])
@pytest.mark.parametrize("as_dataset", [False, True])
def test_all_tasks_must_see_as_many_examples(as_dataset, sharding):
    if as_dataset and sharding == "dynamic":
        pytest.skip("a dataset has no random access")

    def described(count):
        arrays = Arrays(np.zeros(count, np.float32), np.zeros(count, np.float32))
        made = (lambda: tf.data.Dataset.from_tensor_slices((arrays.features, arrays.labels))) if as_dataset else None
        source = DataSource(made or (lambda: arrays), None, Split("train", "/here"))
        with tf.Graph().as_default():
            source.get()
        return described_shards(Job(sharding=sharding, shard_examples=64 if sharding == "dynamic" else None), source)

    line = diff_configs(described(1000), described(996), "the chief", "worker:1")[0]
    assert line.startswith("examples of data('train'): 1000 at the chief, 996 at worker:1 (data() must return the same")
    assert diff_configs(described(1000), described(1000), "the chief", "worker:1") == []


def test_data_of_an_unknown_length_are_not_compared():
    source = DataSource(lambda: tf.data.Dataset.range(9).filter(lambda _: True), None, Split("train", "/here"))
    with tf.Graph().as_default():
        source.get()
    assert described_shards(Job(), source) == {}
