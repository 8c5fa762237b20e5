"""A function that makes data is called in every process; generators are read from the beginning in each pass."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError, ModelError
from ps_train.data.arrays import Arrays
from ps_train.data.sent.sent_data import SentData, sent_data
from tests.support.sent_batches import joined, read, read_in_a_child, same

SIZES = (4, 4, 2)


def batches():
    """Three batches of ten examples."""
    for number, size in enumerate(SIZES):
        yield [np.full([size, 3], number, np.float64), np.arange(size)], np.arange(size) + 10 * number


def dataset():
    scale = int(tf.constant(2))  # needs eager mode
    return tf.data.Dataset.range(10).map(
        lambda i: tf.reshape(tf.numpy_function(lambda j: j * scale, [i], tf.int64), [])
    )


def arrays():
    return np.arange(10), np.arange(10) * 2


def padded():
    yield np.zeros([2, 3])
    yield np.zeros([2, 4])
    yield np.zeros([1, 9])


def labels(pairs):
    return [batch[1].tolist() for batch, _ in pairs]


def test_a_generator_function_is_read_again_in_each_epoch(caplog):
    caplog.set_level("INFO")
    data = sent_data(batches)
    assert data.steps_per_epoch == 3
    assert "Counting the batches of the generator" in caplog.text
    whole = read(data, 5)
    for (batch, examples), made in zip(whole, [*batches(), *batches()], strict=False):
        assert same(batch, (tuple(made[0]), made[1]))
        assert examples == len(made[1])
    for batch, *pieces in zip(whole, *(read(data, 5, 2, index) for index in range(2)), strict=True):
        assert same(joined(pieces), batch[0])
    assert labels(read(data, 2, 2, 1, True)) == labels([whole[1], whole[3]])
    assert data.first_batch()[1].numpy().tolist() == [0, 1, 2, 3]


def test_dimensions_in_which_the_first_batches_differ_are_unknown():
    data = sent_data(padded, steps_per_epoch=3)
    assert data.element_spec[0].shape.as_list() == [None, None]
    assert [batch[0].shape for batch, _ in read(data, 3)] == [(2, 3), (2, 4), (1, 9)]


@pytest.mark.long
def test_functions_travel(tmp_path, monkeypatch):
    (tmp_path / "module_of_a_user.py").write_text("def make():\n    yield ([1.0, 2.0],)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    from module_of_a_user import make

    made = {"generator": batches, "dataset": lambda: dataset().batch(4), "arrays": arrays, "of a module": make}
    data = {name: sent_data(function, batch_size=4 if name == "arrays" else None) for name, function in made.items()}
    for name, one in data.items():
        one.write(str(tmp_path / name))
    found = read_in_a_child([tmp_path / name for name in data], 4, 2, 1)
    for pairs, one in zip(found, data.values(), strict=True):
        assert all(same(there[0], here[0]) for there, here in zip(pairs, read(one, 4, 2, 1), strict=True))


def test_a_function_may_make_data_of_any_kind():
    made = {
        "Arrays": lambda: Arrays({"a": np.arange(4.0)}, np.arange(4)),
        "batches in a list": lambda: iter([(np.arange(2),), (np.arange(2),)]),
        "one array": lambda: np.arange(4),
    }
    assert {name: sent_data(function, steps_per_epoch=1).first_batch() is not None for name, function in made.items()}


def test_one_generator_is_read_once_and_does_not_travel(tmp_path):
    data = sent_data(batches(), steps_per_epoch=2)
    found = read(data, 3)
    assert labels(found) == [made[1].tolist() for made in batches()]
    with pytest.raises(DataError, match="give fit a function without arguments that makes it"):
        sent_data(batches(), steps_per_epoch=2).write(str(tmp_path))
    with pytest.raises(ConfigError, match="the number of batches of a generator is not known"):
        sent_data(batches())
    with pytest.raises(tf.errors.OpError, match="ended before the last epoch"):
        read(sent_data(batches(), steps_per_epoch=2), 4)


def test_a_function_that_cannot_be_sent_is_refused(tmp_path, monkeypatch):
    data = sent_data(lambda: batches(), steps_per_epoch=1)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(DataError, match=r"x, a function, cannot be pickled .*into a module"):
        data.write(str(tmp_path))
    monkeypatch.setattr(batches, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "batches", batches, raising=False)
    with pytest.raises(DataError, match="defined in the program itself, and cloudpickle is not installed"):
        sent_data(batches, steps_per_epoch=1).write(str(tmp_path))


def test_the_spec_is_that_of_the_process_that_wrote(tmp_path):
    data = sent_data(padded, steps_per_epoch=3)
    data.write(str(tmp_path))
    data.element_spec[0].shape.assert_is_compatible_with([None, None])
    assert SentData.read(str(tmp_path)).element_spec == data.element_spec


def fails():
    raise KeyError("mine")


def empty():
    yield from ()


def four():
    yield 1, 2, 3, 4


def differ():
    yield np.zeros([2, 3]), np.zeros(2)
    yield (np.zeros([2, 3]),)


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (fails, ModelError, r"fails\(\) that makes the data raised KeyError: 'mine'"),
        (lambda: 3, DataError, "x is of the type int, which is not data"),
        (empty, DataError, "the generator has no batches"),
        (four, DataError, "a tuple of 4 values"),
        (differ, DataError, "differ in their structures"),
    ],
)
def test_bad_data_are_refused_in_one_line(function, error, words):
    with pytest.raises(error, match=words) as caught:
        sent_data(function, steps_per_epoch=1)
    assert "\n" not in str(caught.value)


def test_a_later_batch_of_another_shape_ends_the_reading_with_a_line():
    def grows():
        yield np.zeros([2, 3])
        yield np.zeros([2, 3])
        yield np.zeros([2, 4])

    with pytest.raises(tf.errors.OpError, match=r"has the shape \(2, 4\), and the first ones had \(None, 3\)"):
        read(sent_data(grows, steps_per_epoch=3), 3)
