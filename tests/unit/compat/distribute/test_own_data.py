"""The parts of all workers are the batches of one order."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import DataError
from ps_train.compat.distribute.own_data import part_of, whole_of
from ps_train.data.sent.part import Part


@pytest.fixture(autouse=True)
def without_seed():
    """Datasets get no seed from another test's."""
    tf.random.set_seed(None)


def shuffled():
    return tf.data.Dataset.from_tensor_slices((np.arange(22), np.arange(22) * 2)).shuffle(22).batch(8)


def of(count, deal):
    parts = [part_of(shuffled(), Part(count, index, deal), 3) for index in range(count)]
    return [[x.numpy().tolist() for x, _ in part] for part in parts]


def examples(parts):
    return sorted(one for part in parts for batch in part for one in batch)


def test_each_batch_is_cut_into_the_pieces_of_the_workers():
    one, other = of(2, deal=False)
    assert [len(piece) for piece in one] == [len(piece) for piece in other] == [4, 4, 3]
    assert examples([one, other]) == list(range(22))


def test_a_batch_of_too_few_examples_has_empty_pieces():
    parts = of(4, deal=False)
    assert [len(part) for part in parts] == [3] * 4
    assert examples(parts) == list(range(22))
    tiny = tf.data.Dataset.from_tensor_slices(np.arange(3)).batch(3)
    assert [len(next(iter(part_of(tiny, Part(4, i), 0)))) for i in range(4)] == [0, 1, 1, 1]


def test_batches_are_dealt():
    one, other = of(2, deal=True)
    assert [[len(batch) for batch in part] for part in (one, other)] == [[8, 6], [8]]
    assert examples([one, other]) == list(range(22))


def test_a_part_remembers_the_whole_and_other_data_are_whole():
    data = shuffled()
    assert whole_of(part_of(data, Part(2, 1), 0)) is data
    assert whole_of(data) is data and whole_of(None) is None


def test_a_dataset_that_calls_python_is_cut_too():
    data = tf.data.Dataset.from_generator(lambda: iter(range(6)), output_signature=tf.TensorSpec([], tf.int64))
    assert [x.numpy().tolist() for x in part_of(data.batch(4), Part(2, 1), 0)] == [[2, 3], [5]]


def test_single_examples_are_refused():
    with pytest.raises(DataError, match="single examples"):
        part_of(tf.data.Dataset.range(3), Part(2, 0), 0)
