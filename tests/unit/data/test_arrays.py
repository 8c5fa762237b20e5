"""Arrays know their length and refuse lengths that differ."""

from __future__ import annotations

import numpy as np
import pytest

from ps_train.base.errors import DataError
from ps_train.data.arrays import Arrays

NUMBERS = Arrays(np.arange(23, dtype=np.float32)[:, None] * 10, np.arange(23))


def test_arrays_that_differ_in_number_are_refused_with_their_lengths():
    with pytest.raises(DataError) as caught:
        Arrays({"id": np.zeros(3), "image": np.zeros((4, 2))}, np.zeros(3))
    assert "id 3, image 4, labels 3" in str(caught.value)


def test_the_length_of_arrays_is_the_number_of_examples():
    assert len(NUMBERS) == 23


def test_labels_may_have_names_too():
    both = Arrays(np.zeros((3, 2)), {"click": [1.0, 0.0, 1.0], "buy": np.array([0, 0, 1])})
    assert [(name, values.dtype.name) for name, values in both.named()] == [
        ("features", "float64"),
        ("click", "float32"),
        ("buy", "int64"),
    ]
    assert len(both) == 3


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"click": np.zeros(3), "buy": np.zeros(4)}, "features 3, click 3, buy 4"),
        ({}, r"labels has the names \[\]"),
        ({1: np.zeros(3)}, r"labels has the names \[1\]"),
        ({"click": {"buy": np.zeros(3)}}, "label click of Arrays is a dict"),
        ({"click": None}, "label click of Arrays is None"),
    ],
)
def test_labels_that_are_no_arrays_are_refused_by_name(labels, words):
    with pytest.raises(DataError, match=words):
        Arrays(np.zeros((3, 1)), labels)


def test_texts_in_lists_keep_zero_bytes_at_their_ends():
    found = Arrays({"c": [b"a\0", b"b"], "p": [["a\0", "b"], ("c", "d\0")]}, [1.0, 0.0])
    assert found.features["c"].tolist() == [b"a\0", b"b"] and found.features["p"].tolist() == [
        ["a\0", "b"],
        ["c", "d\0"],
    ]
    with pytest.raises(DataError, match="feature c of Arrays holds Python objects"):
        Arrays({"c": ["a", None]}, [1.0, 0.0])
