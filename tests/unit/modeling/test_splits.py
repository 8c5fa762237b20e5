"""The splits of a job's data are asked for with its flags."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ModelError
from ps_train.config.job import Job
from ps_train.data.arrays import Arrays
from ps_train.data.pipeline import DataSource
from ps_train.modeling import splits
from ps_train.modeling.model import Model

DATA = Arrays(np.ones((8, 2), np.float32), np.ones(8, np.float32))


class Net(Model):
    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def data(self, split: str, data_dir: str) -> Arrays:
        self.asked.append((split, data_dir))
        return DATA


def test_data_are_made_when_they_are_asked_for_and_once() -> None:
    model, job = Net(), Job(data_dir="d", batch_size=4, max_bad_lines=3)
    train, test = splits.training_source(model, job), splits.test_source(model, job)
    assert model.asked == []
    assert train.get() is train.get() is DATA and test.get() is DATA
    assert model.asked == [("train", "d"), ("test", "d")]


class Endless(Net):
    def data(self, split: str, data_dir: str) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices((np.ones((4, 2)), np.ones(4))).repeat()


def test_data_without_an_end_have_no_epochs_and_are_never_scored() -> None:
    with tf.Graph().as_default():
        splits.training_source(Endless(), Job(batch_size=2)).get()
        with pytest.raises(ModelError, match="epochs=1 would never end"):
            splits.training_source(Endless(), Job(batch_size=2, epochs=1)).get()
        with pytest.raises(ModelError, match="could never be scored"):
            splits.test_source(Endless(), Job(batch_size=2)).get()


def test_an_empty_test_split_is_told(caplog: pytest.LogCaptureFixture) -> None:
    source = DataSource(lambda: DATA)
    with caplog.at_level(logging.WARNING):
        splits.warn_if_empty(source, DATA)
        assert caplog.messages == []
        splits.warn_if_empty(source, Arrays(np.ones((0, 2), np.float32), np.ones(0, np.float32)))
    assert "has no examples: the model will not be scored" in caplog.messages[0]
