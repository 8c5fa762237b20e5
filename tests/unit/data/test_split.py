"""Empty, endless and batched data are known before an example is read; data that only look so are not refused."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import DataError, ModelError
from ps_train.data.arrays import Arrays
from ps_train.data.pipeline import DataSource
from ps_train.data.split import UNKNOWN, Split, number_of

TRAIN, TEST = Split("train", "/no/such", epochs=0), Split("test", "/no/such")


def examples(count=50):
    return tf.data.Dataset.from_tensor_slices((np.zeros((count, 3), np.float32), np.zeros(count)))


def generated(*shapes):
    signature = tuple(tf.TensorSpec(shape, tf.float32) for shape in shapes)
    return tf.data.Dataset.from_generator(lambda: iter(()), output_signature=signature)


def check(split, make):
    with tf.Graph().as_default():
        split.check(make())


@pytest.mark.parametrize("make", [lambda: Arrays(np.zeros((0, 3)), np.zeros(0)), lambda: examples(0)])
def test_training_data_without_examples_are_an_error_and_test_data_are_not(make):
    with pytest.raises(DataError, match=r"^data\('train', data_dir='/no/such'\) has no examples.*--data_dir"):
        check(TRAIN, make)
    check(TEST, make)


def test_data_that_repeat_themselves_are_refused_where_their_end_is_needed():
    with pytest.raises(ModelError, match=r"data\('test', .*repeats itself.*remove \.repeat\(\)"):
        check(TEST, lambda: examples().repeat())
    with pytest.raises(ModelError, match=r"epochs=3 would never end: remove \.repeat\(\).*, or leave --epochs out"):
        check(Split("train", "", epochs=3), lambda: examples().repeat().shuffle(10))
    check(TRAIN, lambda: examples().repeat())  # max_steps ends the job
    for split in (TEST, Split("train", "", epochs=3)):
        check(split, lambda: examples().repeat(2))


@pytest.mark.parametrize(
    "batched",
    [
        lambda: examples().batch(8),
        lambda: examples().batch(8, drop_remainder=True),
        lambda: examples().shuffle(5).batch(8).cache().repeat(2).prefetch(2),
        lambda: examples().batch(8, drop_remainder=True).take(3).prefetch(1),
        lambda: examples().batch(8).map(lambda x, y: (x * 2, y)),
        lambda: examples().padded_batch(8),
        lambda: generated((None, 3), (None,)),
    ],
)
@pytest.mark.parametrize("split", [TRAIN, TEST])
def test_batches_are_recognised(batched, split):
    with pytest.raises(ModelError, match=r"batched already \(shapes .*, 3\), .*remove \.batch\(\).*--batch_size"):
        check(split, batched)


@pytest.mark.parametrize(
    "single",
    [
        examples,
        lambda: examples().batch(8).unbatch(),
        lambda: examples().enumerate().map(lambda number, example: example),
        lambda: generated((None,), ()),  # of any length, with one label
        lambda: tf.data.Dataset.range(100).batch(20, drop_remainder=True).map(lambda row: (row[:-1], row[1:])),
        lambda: tf.data.Dataset.from_tensor_slices((np.zeros((50, 7)), np.zeros((50, 7)))),
        lambda: tf.data.Dataset.from_tensor_slices(({"a": np.zeros((5, 7)), "b": np.zeros(5)}, np.zeros(5))),
        lambda: tf.data.Dataset.from_generator(lambda: iter(()), (tf.float32, tf.float32)),
    ],
)
def test_single_examples_are_not_taken_for_batches(single):
    check(TRAIN, single)


def test_sequences_of_any_length_may_come_one_at_a_time():
    check(Split("train", "", batch_size=1), lambda: generated((None, 3), (None,)))
    with pytest.raises(ModelError, match="batched already"):
        check(Split("train", "", batch_size=1), lambda: examples().batch(8))


def test_a_number_that_only_reading_tells_is_unknown():
    with tf.Graph().as_default():
        assert number_of(generated((3,), ())) == UNKNOWN
        assert number_of(examples().filter(lambda x, y: y > 0)) == UNKNOWN
        assert number_of(None) == UNKNOWN
    outside = examples()
    with tf.Graph().as_default():
        assert number_of(outside) == UNKNOWN


def test_a_source_checks_its_first_value_only():
    seen = []

    class Counts(Split):
        def check(self, data):
            seen.append(data)
            return 4

    source = DataSource(lambda: "data", None, Counts("train", "/d"))
    assert [source.get(), source.get()] == ["data", "data"]
    assert seen == ["data"] and source.name == "data('train', data_dir='/d')" and source.count == 4
