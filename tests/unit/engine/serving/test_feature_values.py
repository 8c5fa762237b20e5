"""Values of features: rows of ragged and sparse ones, and the features of inputs."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ps_train.engine.serving.feature_values import Sparse, features_of, row_count, rows_of, tensors_of, value_of


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
