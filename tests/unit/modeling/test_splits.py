"""The splits of a job's data: what the model's data() is called with, and what is checked of its result."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train import Arrays, Model
from ps_train.base.errors import DataError, ModelError
from ps_train.config.job import Job
from ps_train.modeling.splits import test_source as source_of_test
from ps_train.modeling.splits import training_source, warn_if_empty


class Given(Model):
    """Returns data, and notes what it was called with."""

    def __init__(self, data: Any) -> None:
        self.given, self.calls = data, []

    def data(self, split: str, data_dir: str) -> Any:
        self.calls.append((split, data_dir))
        return self.given() if callable(self.given) else self.given


def arrays(count: int) -> Arrays:
    return Arrays(np.zeros((count, 2), np.float32), np.zeros(count, np.float32))


SOURCES = {"train": training_source, "test": source_of_test}


@pytest.mark.parametrize("split", SOURCES)
def test_a_split_is_loaded_once_with_its_name_and_the_directory(split: str) -> None:
    model = Given(arrays(5))
    source = SOURCES[split](model, Job(data_dir="/data"))
    assert model.calls == []
    assert source.get() is source.get() is model.given
    assert model.calls == [(split, "/data")] and source.count == 5
    assert source.name == f"data('{split}', data_dir='/data')"


def sequences() -> tf.data.Dataset:
    """Elements of unknown length, which cannot be put into batches of several."""
    return tf.data.Dataset.range(8).map(lambda n: (tf.range(n), tf.range(n)))


@pytest.mark.parametrize("split", SOURCES)
@pytest.mark.parametrize(("batch_size", "refused"), [("8", True), ("2..8", True), ("1", False), ("1..8", False)])
def test_elements_that_look_like_batches_are_refused_by_the_smallest_batch(split, batch_size, refused) -> None:
    source = SOURCES[split](Given(sequences), Job(batch_size=batch_size))
    with tf.Graph().as_default():
        if refused:
            with pytest.raises(ModelError, match="a dataset that is batched already"):
                source.get()
        else:
            assert source.get() is not None


def test_training_data_without_examples_are_refused_and_test_data_are_not() -> None:
    with pytest.raises(DataError, match="has no examples, so nothing was trained"):
        training_source(Given(arrays(0)), Job()).get()
    assert source_of_test(Given(arrays(0)), Job()).get() is not None


def endless() -> tf.data.Dataset:
    return tf.data.Dataset.range(4).map(lambda x: (x, x)).repeat()


def test_data_without_an_end_are_refused_where_their_end_is_needed() -> None:
    with tf.Graph().as_default():
        training_source(Given(endless), Job()).get()
        with pytest.raises(ModelError, match=r"so epochs=2 would never end"):
            training_source(Given(endless), Job(epochs=2)).get()
        with pytest.raises(ModelError, match=r"so it could never be scored"):
            source_of_test(Given(endless), Job(epochs=2)).get()


@pytest.mark.parametrize(("count", "warned"), [(0, True), (1, False)])
def test_an_empty_test_split_is_warned_of(caplog: pytest.LogCaptureFixture, count: int, warned: bool) -> None:
    source = source_of_test(Given(arrays(count)), Job(data_dir="/data"))
    with caplog.at_level(logging.WARNING):
        warn_if_empty(source, source.get())
    assert [record.message for record in caplog.records] == [
        "data('test', data_dir='/data') has no examples: the model will not be scored; check --data_dir"
    ] * warned


@pytest.mark.parametrize("split", SOURCES)
def test_the_number_of_malformed_records_is_that_of_the_job(split: str) -> None:
    assert SOURCES[split](Given(arrays(1)), Job(max_bad_lines=7))._max_bad_lines == 7


@pytest.mark.parametrize(("sharding", "has_shards"), [("static", False), ("dynamic", True)])
def test_a_training_split_knows_whether_it_has_shards(sharding: str, has_shards: bool) -> None:
    split = training_source(Given(arrays(1)), Job(sharding=sharding))._split
    assert split is not None and split.has_shards == has_shards
