"""Values of features: rows of ragged and sparse ones, and the features of inputs."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import DataError
from ps_train.saved.serving.feature_values import (
    Feature,
    Sparse,
    features_of,
    padded,
    row_count,
    rows_of,
    tensors_of,
    value_of,
)


def test_the_features_of_inputs_are_found_by_their_ends() -> None:
    vector = (tf.int64, (None,))
    found = features_of(
        {
            "a_values": vector,
            "a_row_splits": vector,
            "b_values": vector,
            "b_indices": (tf.int64, (None, 2)),
            "b_dense_shape": (tf.int64, (2,)),
            "c_values": (tf.float32, (None, 3)),
            "d": (tf.string, None),
        }
    )
    assert {name: (feature.kind, feature.row_shape) for name, feature in found.items()} == {
        "a": ("ragged", None), "b": ("sparse", None), "c_values": ("dense", (3,)), "d": ("dense", None)
    }  # fmt: skip


def test_rows_of_a_value_are_those_of_its_whole() -> None:
    lists = [[7], [], [8, 9], [1, 2, 3]]
    for kind in ("ragged", "sparse"):
        inputs = {"ragged": ("_values", "_row_splits"), "sparse": ("_indices", "_values", "_dense_shape")}[kind]
        (feature,) = features_of({f"x{end}": (tf.int64, (None,)) for end in inputs}).values()
        whole = value_of(feature, lists)
        for begin, end in [(0, 4), (1, 3), (2, 2), (3, 4)]:
            part = rows_of(whole, begin, end)
            assert row_count(part) == end - begin
            tensors = [tf.constant(one) for one in tensors_of(part)]
            if kind == "ragged":
                assert tf.RaggedTensor.from_row_splits(*tensors).to_list() == lists[begin:end]
            else:
                dense = tf.sparse.to_dense(tf.SparseTensor(*tensors)).numpy()
                assert dense.tolist() == [[*row, 0, 0, 0][:3] for row in lists[begin:end]]


def test_a_sparse_tensor_keeps_its_width() -> None:
    (feature,) = features_of(
        {f"x{end}": (tf.float32, None) for end in ("_indices", "_values", "_dense_shape")}
    ).values()
    found = value_of(feature, tf.SparseTensor([[0, 4]], [2.0], [3, 9]))
    assert isinstance(found, Sparse) and (found.rows, found.width) == (3, 9)
    assert tensors_of(rows_of(found, 1, 3))[2].tolist() == [2, 9] and np.size(rows_of(found, 1, 3).values) == 0


def _texts_of(kind: str) -> Feature:
    ends = {"ragged": ("_values", "_row_splits"), "dense": ("",)}[kind]
    (feature,) = features_of({f"x{end}": (tf.string, (None,)) for end in ends}).values()
    return feature


def test_texts_keep_zero_bytes_at_their_ends_and_one_long_text_costs_its_own_bytes() -> None:
    texts = [b"a\0", "b\0\0", "x" * 100_000, *["a"] * 4096]
    expected = [one if isinstance(one, bytes) else one.encode() for one in texts]
    tracemalloc.start()
    try:
        assert value_of(_texts_of("dense"), texts).tolist() == expected
        assert value_of(_texts_of("ragged"), [texts, ["c\0"]]).values.tolist() == [*expected, b"c\0"]
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()
    (pairs,) = features_of({"x": (tf.string, (None, 2))}).values()
    assert value_of(pairs, [["a\0", b"b"], (b"\xff\0", "d")]).tolist() == [[b"a\0", b"b"], [b"\xff\0", b"d"]]
    assert value_of(_texts_of("dense"), np.array(["é", "b"])).tolist() == ["é".encode(), b"b"]


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        ("dense", ["a", None], "x has None in row 1: the model takes strings [rows]"),
        ("dense", np.array([None, "a"], object), "x has None in row 0"),
        ("ragged", [["a"], [None]], "x has None in row"),
        ("dense", ["a", 5], "x has 5 in row 1"),
        ("dense", ["a", ["b"]], "x has "),
        ("dense", ["\ud800"], r"x has the text '\ud800', which is not Unicode"),
    ],
)
def test_a_value_that_is_no_text_is_refused_by_the_name_of_its_feature(kind: str, given: Any, words: str) -> None:
    with pytest.raises(DataError) as caught:
        value_of(_texts_of(kind), given)
    assert words in str(caught.value)


def test_rows_are_filled_up_to_a_batch_of_a_fixed_size() -> None:
    features = features_of(
        {"d": (tf.float32, (None, 2)), "s": (tf.string, (None,)), "r_values": (tf.int64, (None,)),
         "r_row_splits": (tf.int64, (None,)), "p_indices": (tf.int64, (None, 2)), "p_values": (tf.int64, (None,)),
         "p_dense_shape": (tf.int64, (2,))}
    )  # fmt: skip
    given = {"d": [[1, 2], [3, 4]], "s": ["a", "b"], "r": [[1], [2, 3]], "p": [[1], [2, 3]]}
    values = {name: padded(value_of(features[name], one), 4) for name, one in given.items()}
    assert [row_count(value) for value in values.values()] == [4] * 4
    assert values["d"].tolist() == [[1, 2], [3, 4], [3, 4], [3, 4]] and values["s"].tolist() == [b"a", b"b", b"b", b"b"]
    assert values["r"].splits.tolist() == [0, 1, 3, 3, 3]
    assert padded(value_of(features["d"], np.zeros([0, 2])), 3).tolist() == [[0, 0]] * 3
