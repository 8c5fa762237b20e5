"""Parts of workers are disjoint, and their union is all batches."""

from __future__ import annotations

import pytest
import tensorflow as tf

from ps_train.data.sent.part import Part, mapped, repacked


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_pieces_are_the_batch_and_differ_by_one_at_most(count):
    for size in range(12):
        bounds = [Part(count, index).bounds(size) for index in range(count)]
        assert [row for first, last in bounds for row in range(first, last)] == list(range(size))
        sizes = [last - first for first, last in bounds]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("start", [0, 1, 5])
def test_numbers_of_all_parts_are_all_numbers(start):
    found = [list(Part(3, index, True, start).numbers().take(4).as_numpy_iterator()) for index in range(3)]
    assert sorted(number for numbers in found for number in numbers) == list(range(start, start + 12))
    assert all(number % 3 == index for index, numbers in enumerate(found) for number in numbers)
    assert list(Part(3, 1, False, start).numbers().take(2).as_numpy_iterator()) == [start, start + 1]


def test_dealt_batches_of_a_sequence_are_those_of_the_numbers():
    batches = tf.data.Dataset.range(100).batch(1)
    for start in (0, 4):
        part = Part(3, 2, True, tf.constant(start, tf.int64) if start else 0)
        found = [batch.numpy()[0] for batch, _ in part.of(batches).take(3)]
        assert found == list(part.numbers().take(3).as_numpy_iterator())


def test_a_batch_keeps_its_structure_and_its_none():
    batch = {"a": (tf.range(3), None), "b": tf.range(3)}
    piece, examples = Part(2, 1).cut(batch)
    assert (piece["a"][0].numpy().tolist(), piece["a"][1], int(examples)) == ([1, 2], None, 2)
    assert repacked(lambda tensors: [tensor + 1 for tensor in tensors], batch)["b"].numpy().tolist() == [1, 2, 3]


@pytest.mark.parametrize("element", [(1,), (1, 2), 1, {"a": 1}, ((1, 2), 3)])
def test_a_function_gets_elements_whole(element):
    dataset = tf.data.Dataset.from_tensors(element)
    (found,) = mapped(dataset, lambda whole: (whole, 7)).as_numpy_iterator()
    assert found == (element, 7)
