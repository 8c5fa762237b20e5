"""Rows of a bag of ids are combined as numpy combines them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1
from hypothesis import given, settings
from hypothesis import strategies as st

from ps_train import embeddings
from ps_train.base.errors import ModelError
from ps_train.data.stream import data_error
from ps_train.modeling.tables.row_order import positions_of
from tests.support.graphs.lookups import evaluated, looked_up

bags = st.lists(
    st.lists(st.tuples(st.integers(0, 6), st.floats(0.125, 4, width=32)), max_size=5), min_size=1, max_size=6
)


@pytest.mark.parametrize("kind", ["ragged", "sparse"])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@settings(max_examples=6, deadline=None)
@given(bags=bags, weighted=st.booleans())
@pytest.mark.usual(1)
def test_bags_are_combined_as_numpy_does(kind: str, combiner: str, bags: list, weighted: bool) -> None:
    ids = tf.ragged.constant([[i for i, _ in bag] for bag in bags], dtype=tf.int64, ragged_rank=1)
    weights = tf.ragged.constant([[w for _, w in bag] for bag in bags], dtype=tf.float32, ragged_rank=1)
    arrays = [ids.values.numpy(), ids.row_splits.numpy(), weights.values.numpy()]

    def build():
        splits = tf.constant(arrays[1])
        ragged = tf.RaggedTensor.from_row_splits(tf.constant(arrays[0]), splits)
        of_weights = tf.RaggedTensor.from_row_splits(tf.constant(arrays[2]), splits)
        if kind == "sparse":
            ragged, of_weights = ragged.to_sparse(), of_weights.to_sparse()
        table = embeddings.Table("table", rows=7, dimension=3)
        found = embeddings.lookup(table, ragged, combiner, of_weights if weighted else None)
        return found, v1.global_variables()[0]

    found, table = evaluated(build)
    expected = np.zeros([len(bags), 3])
    for row, bag in zip(expected, bags, strict=True):
        w = np.array([w if weighted else 1.0 for _, w in bag])
        rows = table[positions_of(np.array([i for i, _ in bag], np.int64), 7)]
        if bag:
            row += (w @ rows) / {"sum": 1, "mean": w.sum(), "sqrtn": np.sqrt((w**2).sum())}[combiner]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_dense_bags_are_combined_too() -> None:
    found, table = looked_up([[1, 1, 4]], "mean", [[1.0, 1.0, 2.0]], rows=5, dimension=2)
    np.testing.assert_allclose(found, [(2 * table[1] + 2 * table[4]) / 4], rtol=1e-6)


def _bags_of(kind: str, lengths: list[int], dtype: tf.DType):
    """Returns lists whose sizes are known only when they are computed."""
    splits = v1.placeholder_with_default(np.cumsum([0, *lengths]), [None])
    values = v1.placeholder_with_default(np.arange(sum(lengths)) % 5, [None])
    ragged = tf.RaggedTensor.from_row_splits(tf.cast(values, dtype), splits, validate=False)
    return {"ragged": lambda: ragged, "sparse": ragged.to_sparse, "flat": lambda: ragged.values}[kind]()


@pytest.mark.parametrize("kinds", [("ragged", "ragged"), ("sparse", "sparse"), ("ragged", "flat"), ("sparse", "flat")])
@pytest.mark.parametrize("lengths", [[1, 2, 3], [2, 1, 2]])
def test_weights_in_other_lists_than_the_ids_are_refused(kinds: tuple[str, str], lengths: list[int]) -> None:
    def build(lengths: list[int]):
        table = embeddings.Table("table", rows=7, dimension=3)
        ids, weights = (
            _bags_of(kind, some, dtype)
            for kind, some, dtype in zip(kinds, ([2, 1, 3], lengths), (tf.int64, tf.float32), strict=True)
        )
        return embeddings.lookup(table, ids, "mean", weights)

    evaluated(lambda: build([2, 1, 3]))
    if kinds[1] == "flat" and sum(lengths) == 6:
        return  # as many as ids
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        evaluated(lambda: build(lengths))
    assert "table table: the weights have lists of other lengths than the ids" in str(data_error(caught.value))


def test_weights_of_another_kind_than_the_ids_are_refused() -> None:
    lengths = [2, 1]
    for ids, weights, words in (
        ("ragged", "sparse", "is given sparse weights for ragged ids: use one kind"),
        ("sparse", "ragged", "is given ragged weights for sparse ids: use one kind"),
        ("flat", "ragged", "is given ragged weights for ids of a tensor"),
    ):

        def build(ids: str = ids, weights: str = weights):
            given = _bags_of(ids, lengths, tf.int64)
            given = given[:, tf.newaxis] if ids == "flat" else given
            return embeddings.lookup(
                embeddings.Table("table", rows=7, dimension=3), given, "sum", _bags_of(weights, lengths, tf.float32)
            )

        with pytest.raises(ModelError, match=words):
            evaluated(build)


def test_a_tensor_of_more_weights_than_ids_is_refused() -> None:
    def build():
        width = v1.placeholder_with_default(3, [])
        weights = tf.ones([2, width])
        return embeddings.lookup(
            embeddings.Table("table", rows=7, dimension=3), tf.zeros([2, 2], tf.int64), "sum", weights
        )

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        evaluated(build)
    assert "the weights have lists of other lengths than the ids" in str(data_error(caught.value))
