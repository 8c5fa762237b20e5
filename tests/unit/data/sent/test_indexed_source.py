"""A PyDataset is asked for its batches in each process, as Keras asks for them in one."""

from __future__ import annotations

import random

import keras
import numpy as np
import pytest

from ps_train.base.errors import DataError
from ps_train.data.sent.sent_data import SentData, sent_data
from tests.support.sent_batches import joined, read, read_in_a_child, same


class Numbers(keras.utils.PyDataset):
    """Batches of the numbers below `examples`."""

    def __init__(self, examples=10, size=4, shuffled=False, **arguments):
        super().__init__(**arguments)
        self.order, self.size, self.shuffled, self.asked, self.events = list(range(examples)), size, shuffled, [], []

    def __len__(self):
        return -(-len(self.order) // self.size)

    def __getitem__(self, index):
        self.asked.append(index)
        rows = np.array(self.order[index * self.size : (index + 1) * self.size])
        return {"x": rows.astype(np.float32)}, rows

    def on_epoch_begin(self):
        self.events.append("begin")

    def on_epoch_end(self):
        self.events.append("end")
        if self.shuffled:
            random.shuffle(self.order)
            np.random.shuffle(self.order)


class Endless(Numbers):
    """Numbers without an end."""

    @property
    def num_batches(self):
        return None

    def __getitem__(self, index):
        return np.array([index])


def labels(pairs):
    return [batch[1].tolist() for batch, _ in pairs]


def test_batches_are_the_objects_in_its_order():
    data = sent_data(Numbers(), shuffle=False)
    assert data.steps_per_epoch == 3
    assert labels(read(data, 4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [0, 1, 2, 3]]
    assert data.element_spec[0]["x"].shape.as_list() == [None]
    assert data.first_batch()[1].numpy().tolist() == [0, 1, 2, 3]


def test_batches_come_in_a_new_order_in_each_epoch():
    found = labels(read(sent_data(Numbers(24)), 12))
    assert sorted(found[:6]) == sorted(found[6:]) == labels(read(sent_data(Numbers(24), shuffle=False), 6))
    assert found[:6] != found[6:]


@pytest.mark.parametrize("workers", [1, 3])
def test_parts_of_workers_are_the_batches(tmp_path, workers):
    data = sent_data(Numbers(shuffled=True, workers=workers), seed=2)
    data.write(str(tmp_path))
    there = [SentData.read(str(tmp_path)) for _ in range(2)]
    whole = read(data, 8)
    assert sorted(label for batch in labels(whole[3:6]) for label in batch) == list(range(10))
    for batch, *pieces in zip(whole, *(read(one, 8, 2, index) for index, one in enumerate(there)), strict=True):
        assert same(joined(pieces), batch[0])


def test_a_worker_asks_only_for_batches_that_it_trains_on():
    numbers = Numbers(40)
    data = sent_data(numbers, shuffle=False)
    numbers.asked.clear()
    assert labels(read(data, 3, 2, 1, True)) == [[4, 5, 6, 7], [12, 13, 14, 15], [20, 21, 22, 23]]
    assert all(index % 2 for index in numbers.asked)


def test_the_object_is_told_of_epochs_and_our_random_numbers_are_not_touched():
    numbers = Numbers(shuffled=True)
    random.seed(1)
    np.random.seed(1)
    expected = random.random(), np.random.random()
    random.seed(1)
    np.random.seed(1)
    data = sent_data(numbers)
    assert numbers.events == []
    read(data, 4)
    assert numbers.events[:3] == ["begin", "end", "begin"]
    assert (random.random(), np.random.random()) == expected


def test_a_worker_that_begins_later_has_the_orders_of_the_others(tmp_path):
    sent_data(Numbers(shuffled=True)).write(str(tmp_path))
    whole = labels(read(SentData.read(str(tmp_path)), 12))
    assert labels(read(SentData.read(str(tmp_path)), 3, start=7)) == whole[7:10]
    assert labels(read(SentData.read(str(tmp_path)), 3, 2, 0, True, start=7)) == whole[8:12:2] + labels(
        read(SentData.read(str(tmp_path)), 1, start=12)
    )


def test_an_object_without_an_end_goes_on():
    data = sent_data(Endless(), steps_per_epoch=5)
    assert [batch[0].tolist() for batch, _ in read(data, 3, 2, 1, True)] == [[1], [3], [5]]


@pytest.mark.long
def test_it_travels(tmp_path):
    data = sent_data(Numbers(), seed=4)
    data.write(str(tmp_path))
    (found,) = read_in_a_child([tmp_path], 4, 2, 1)
    assert all(same(one[0], other[0]) for one, other in zip(found, read(data, 4, 2, 1), strict=True))


def test_an_object_that_cannot_be_pickled_is_refused(tmp_path):
    numbers = Numbers()
    numbers.file = (number for number in range(3))
    with pytest.raises(DataError, match=r"cannot be pickled .*: put a function"):
        sent_data(numbers).write(str(tmp_path))
