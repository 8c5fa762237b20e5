"""Rows kept in a graph: none is lost as the buffer grows, and a sample has whole groups, the same in all shards."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import metrics
from ps_train.modeling.ranking import Ranked
from ps_train.modeling.row_buffer import merged_rows, row_buffers

KINDS = {"int64": np.int64, "int32": np.int32, "string": np.str_, "uint64": np.uint64}


def rows(count=5000, groups=300, seed=0):
    random = np.random.default_rng(seed)
    labels = (random.random(count) < 0.2).astype(np.float32)
    return labels, random.normal(size=count).astype(np.float32), random.integers(0, groups, count)


def kept(data, max_rows, parts, kind="int64"):
    """Values of two metrics of some rows in batches, the rows, and the number of buffers."""
    with tf.Graph().as_default(), v1.Session() as session:
        fed = [v1.placeholder(tf.as_dtype(dtype), [None]) for dtype in (np.float32, np.float32, kind)]
        found = [metrics.grouped_auc(*fed, max_rows=max_rows), metrics.ndcg_at(*fed, k=3, max_rows=max_rows)]
        buffers = row_buffers(v1.local_variables())
        session.run(v1.local_variables_initializer())
        for part in parts:
            given = [data[0][part], data[1][part], data[2][part].astype(KINDS[kind])]
            session.run([update for _, update in found], dict(zip(fed, given, strict=True)))
        values, packed = session.run([[value for value, _ in found], buffers[0].packed()])
        capacity = session.run(tf.shape(buffers[0].rows)[0])
        load = buffers[0].load(tf.constant(packed[:100]))
        session.run(load)
        assert (session.run(buffers[0].packed()) == packed[:100]).all()
        return values, packed, len(buffers), capacity


def batches(begin, end, size):
    return [slice(one, min(one + size, end)) for one in range(begin, end, size)]


@pytest.mark.parametrize("kind", KINDS)
def test_all_rows_are_kept_once_for_all_metrics(kind):
    data = rows()
    values, packed, buffers, capacity = kept(data, 10**6, batches(0, 5000, 700), kind)
    ranked = Ranked(*data)
    assert values == pytest.approx([ranked.auc(), ranked.ndcg_at(3)], abs=1e-12)
    assert (packed[1:, 1] == np.stack([data[1], data[0]], 1).copy().view(np.int64)[:, 0]).all()
    assert buffers == 1 and len(packed) == 5001 <= capacity <= 10_000


def test_a_sample_has_whole_groups_and_is_that_of_the_shards(caplog):
    data = rows()
    with caplog.at_level(logging.WARNING):
        values, packed, _, capacity = kept(data, 1499, batches(0, 5000, 512))
    (_, halvings), keys = packed[0][::-1], np.unique(packed[1:, 0])
    whole = np.isin(data[2], keys)
    assert halvings == 2 and whole.sum() == len(packed) - 1 <= 1499 < capacity < 1499 + 2 * 512
    ranked = Ranked(*(one[whole] for one in data))
    assert values == pytest.approx([ranked.auc(), ranked.ndcg_at(3)], abs=1e-12)
    assert [record.getMessage()[:70] for record in caplog.records] == [
        "there are more than 1499 rows (max_rows): metrics within groups are of a sample"[:70]
    ]
    shards = [kept(data, 1499, parts)[1] for parts in (batches(0, 1000, 512), [], batches(1000, 5000, 900))]
    assert {shard[0, 0] for shard in shards} > {0}
    merged = merged_rows(shards)
    assert sorted(map(tuple, merged)) == sorted(map(tuple, packed))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max_rows": 0}, "max_rows is 0"),
        ({"k": 0}, "k is 0"),
        ({"groups": np.ones(3, np.float32)}, "groups is float32: use whole numbers or strings"),
        ({"scores": np.array(["a", "b", "c"])}, "scores is string: use numbers"),
    ],
)
def test_wrong_arguments_are_named(change, said):
    right = {"labels": np.ones(3), "scores": np.ones(3), "groups": np.ones(3, int), "k": 3}
    with tf.Graph().as_default(), pytest.raises(ValueError, match=said):
        metrics.precision_at(**{**right, **change})


@pytest.mark.parametrize("left", [0, 40])
def test_a_group_that_is_too_large_is_left_out_and_without_any_group_the_value_is_not_a_number(left: int, caplog):
    labels, scores, _ = rows(2000)
    groups = np.where(np.arange(2000) < left, np.arange(2000) // 4, 1000)
    with caplog.at_level(logging.WARNING):
        values, packed, _, _ = kept((labels, scores, groups), 500 + left, batches(0, 2000, 512))
    assert 1000 not in packed[1:, 0] and len(packed) <= 1 + left
    assert np.isnan(values).all() == (len(packed) == 1)
    assert ("none is left within 500 rows" in caplog.text) == (left == 0)
