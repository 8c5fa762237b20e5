"""Batches of arrays are those of Keras, and workers' parts are exactly the batches."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, DataError
from ps_train.data.sent.sent_data import SentData, sent_data
from tests.support.sent_batches import joined, read, read_in_a_child, same

X = np.arange(20, dtype=np.float32).reshape(10, 2)
Y = np.arange(10)


def rows(pairs):
    """The labels of each batch."""
    return [batch[1].tolist() for batch, examples in pairs]


def test_batches_without_shuffling_are_those_that_a_train_step_of_keras_gets():
    seen = []

    class Spy(keras.Model):
        def train_step(self, data):
            tf.numpy_function(lambda *values: seen.append(values), tf.nest.flatten(data), [])
            return {"loss": tf.constant(0.0)}

    x = {"a": X.astype(np.float64), "b": [X, np.arange(10)]}
    weights = np.linspace(0, 1, 10)
    model = Spy()
    model.compile(jit_compile=False)
    model.fit(x, Y, sample_weight=weights, batch_size=4, epochs=2, shuffle=False, verbose=0)
    data = sent_data(x, Y, weights, batch_size=4, shuffle=False)
    assert data.steps_per_epoch == 3
    ours = [tuple(tf.nest.flatten(batch)) for batch, _ in read(data, 6)]
    assert len(seen) == 6
    for mine, theirs in zip(ours, seen, strict=True):
        assert [value.dtype for value in mine] == [value.dtype for value in theirs]
        assert all(map(np.array_equal, mine, theirs))


@pytest.mark.parametrize("shuffle", [True, "batch", False])
def test_parts_of_synchronous_workers_are_the_batches(shuffle):
    data = sent_data(X, Y, batch_size=4, shuffle=shuffle, seed=3)
    whole = read(data, 7)
    parts = [read(data, 7, 3, index) for index in range(3)]
    for batch, *pieces in zip(whole, *parts, strict=True):
        assert same(joined(pieces), batch[0])
        assert sum(examples for _, examples in pieces) == batch[1]
        assert max(examples for _, examples in pieces) - min(examples for _, examples in pieces) <= 1


def test_batches_are_dealt_to_asynchronous_workers_in_turn_over_the_epochs():
    data = sent_data(X, Y, batch_size=4)
    whole = read(data, 8)
    for index in range(2):
        dealt = read(data, 4, 2, index, True)
        assert rows(dealt) == rows(whole)[index::2]


def test_each_epoch_has_every_example_once_in_another_order():
    data = sent_data(X, Y, batch_size=4)
    labels = rows(read(data, 6))
    first, second = ([label for batch in epoch for label in batch] for epoch in (labels[:3], labels[3:]))
    assert sorted(first) == sorted(second) == Y.tolist()
    assert first != second
    assert [len(batch) for batch in labels] == [4, 4, 2] * 2
    assert rows(read(sent_data(X, Y, batch_size=4, seed=1), 3)) != labels[:3]


def test_shuffling_in_batches_keeps_the_examples_of_each_batch():
    labels = rows(read(sent_data(X, Y, batch_size=5, shuffle="batch"), 4))
    assert [sorted(batch) for batch in labels] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]] * 2
    assert labels[0] != labels[2]


def test_a_part_without_examples_is_the_first_example_that_counts_for_nothing():
    data = sent_data(X, Y, batch_size=1, shuffle=False)
    ((x, y), examples), *_ = read(data, 1, 2, 0)
    assert (x.tolist(), y.tolist(), examples) == ([[0.0, 1.0]], [0], 0)
    assert read(data, 1, 2, 1)[0][1] == 1


@pytest.mark.parametrize("deal", [True, False])
def test_a_worker_may_begin_at_any_batch(deal):
    data = sent_data(X, Y, batch_size=4)
    whole = rows(read(data, 12))
    later = read(data, 3, 2, 1, deal, start=4)
    if deal:
        assert rows(later) == whole[5::2][:3]
    else:
        assert rows(later) == [batch[len(batch) // 2 :] for batch in whole[4:7]]


def test_arrays_travel_as_files(tmp_path):
    x = {"text": np.array(["a", "bé\0", ""] * 3, object), "number": np.arange(9.0), "big": np.ones((9, 2000))}
    data = sent_data(x, np.arange(9) % 2, batch_size=4, seed=5)
    data.write(str(tmp_path / "sent"))
    (there,) = read_in_a_child([tmp_path / "sent"], 5, 2, 1)
    for (ours, _), (theirs, _) in zip(read(data, 5, 2, 1), there, strict=True):
        assert same(ours, theirs)
    again = SentData.read(str(tmp_path / "sent"))
    assert again.element_spec == data.element_spec
    assert again.steps_per_epoch == 3


def test_texts_come_as_bytes():
    data = sent_data(np.array([["a", "é"], ["", "x\0"]]), batch_size=2, shuffle=False)
    assert data.element_spec == tf.TensorSpec([None, 2], tf.string)
    assert read(data, 1)[0][0].tolist() == [[b"a", "é".encode()], [b"", b"x"]]
    assert data.first_batch().numpy().tolist() == [[b"a", "é".encode()], [b"", b"x"]]


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "uint8", "bool", "complex64"])
def test_types_are_those_of_keras_after_the_travel(tmp_path, kind):
    values = tf.cast(tf.range(6), kind).numpy() if kind != "complex64" else np.arange(6).astype(kind)
    data = sent_data(values, batch_size=6, shuffle=False)
    data.write(str(tmp_path))
    expected = keras.config.floatx() if "float" in kind else kind
    assert SentData.read(str(tmp_path)).element_spec.dtype.name == expected
    assert same(read(SentData.read(str(tmp_path)), 1)[0][0], values.astype(expected))


def test_half_precision_of_the_users_choice_travels(tmp_path):
    keras.config.set_floatx("bfloat16")
    try:
        data = sent_data(np.arange(4.0), batch_size=4, shuffle=False)
        data.write(str(tmp_path))
        assert read(SentData.read(str(tmp_path)), 1)[0][0].tolist() == [0, 1, 2, 3]
        assert data.element_spec.dtype == tf.bfloat16
    finally:
        keras.config.set_floatx("float32")


@pytest.mark.parametrize(
    ("x", "y", "weights", "structure"),
    [
        (X, None, None, "x"),
        ([X, X], None, None, (("x", "x"),)),
        (X, Y, None, ("x", "y")),
        (X, [Y, None], None, ("x", ("y", None))),
        (X, {"a": Y, "b": Y}, np.ones(10), ("x", {"a": "y", "b": "y"}, {"a": "w", "b": "w"})),
        (tf.constant(X), Y.tolist(), None, ("x", "y")),
    ],
)
def test_structures_are_those_of_keras(x, y, weights, structure):
    data = sent_data(x, y, weights, batch_size=4)
    tf.nest.assert_same_structure(data.element_spec, structure)
    tf.nest.assert_same_structure(data.first_batch(), structure)
    assert len(tf.nest.flatten(data.first_batch())[0]) == 4


def test_the_size_of_batches_follows_the_steps_as_in_keras():
    assert sent_data(X, Y, steps_per_epoch=3).first_batch()[0].shape[0] == 4
    assert sent_data(np.zeros(100)).first_batch().shape[0] == 32
    assert sent_data(X, Y, batch_size=2, steps_per_epoch=3).steps_per_epoch == 3


def test_data_that_begin_again_within_an_epoch_are_said(caplog):
    data = sent_data(X, Y, batch_size=4, steps_per_epoch=2, epochs=2, shuffle=False)
    assert rows(read(data, 4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], [0, 1, 2, 3]]
    assert "has 3 batches, and an epoch 2" in caplog.text
    caplog.clear()
    sent_data(X, Y, batch_size=4, steps_per_epoch=1, epochs=9)
    assert not caplog.text


@pytest.mark.parametrize(
    ("error", "words", "arguments"),
    [
        (DataError, "x 10, y 9", {"x": X, "y": Y[:9]}),
        (DataError, "no examples", {"x": X[:0]}),
        (DataError, r"x\['a'\] is of the type RaggedTensor", {"x": {"a": tf.ragged.constant([[1], [1, 2]])}}),
        (DataError, "Python objects .*dict", {"x": np.array([{}], object)}),
        (DataError, "datetime64", {"x": np.array(["2020-01-01"], "datetime64[D]")}),
        (DataError, "makes no array", {"x": [[1, 2], [1]]}),
        (DataError, "x is of the type object, which is not data", {"x": object()}),
        (DataError, "x is of the type NoneType, which is not data", {"x": None}),
        (ConfigError, "batch_size=0", {"x": X, "batch_size": 0}),
        (ConfigError, "steps_per_epoch=1.5", {"x": X, "steps_per_epoch": 1.5}),
        (ConfigError, "another structure than y", {"x": X, "y": [Y, Y], "sample_weight": [Y]}),
        (ConfigError, "for several outputs", {"x": X, "y": [Y, Y], "sample_weight": X}),
    ],
)
def test_bad_input_is_refused_in_one_line(error, words, arguments):
    with pytest.raises(error, match=words) as caught:
        sent_data(**arguments)
    assert "\n" not in str(caught.value)


def test_a_directory_that_others_may_write_is_not_read(tmp_path):
    sent_data(X).write(str(tmp_path / "sent"))
    assert (tmp_path / "sent").stat().st_mode & 0o777 == 0o700
    (tmp_path / "sent").chmod(0o722)
    with pytest.raises(DataError, match="written by other users"):
        SentData.read(str(tmp_path / "sent"))
