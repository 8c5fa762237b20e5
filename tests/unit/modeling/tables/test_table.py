"""Declarations of tables: what does not fit together is refused, and a name is one table."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import embeddings
from ps_train.base.errors import ModelError
from tests.support.graphs.lookups import looked_up

REFUSED = {
    "neither rows nor hash_buckets": (
        {"dimension": 2},
        [1],
        "no rows, hash_buckets or capacity: give one",
    ),
    "both": ({"dimension": 2, "rows": 3, "hash_buckets": 3}, [1], "rows=3 and hash_buckets=3: give one"),
    "no dimension": ({"rows": 3}, [1], "has no dimension"),
    "no rows": ({"dimension": 2, "rows": 0}, [1], "rows=0: use a whole number of at least 1"),
    "half a row": ({"dimension": 2, "rows": 2.5}, [1], "rows=2.5: use a whole number"),
    "too many rows": ({"dimension": 2, "rows": [2**30, 2**30]}, [[1, 1]], "at most 2147483647"),
    "an unknown combiner": (
        {"dimension": 2, "rows": 3, "combiner": "max"},
        [[1]],
        "combiner=max: use one of sum, mean",
    ),
    "an unknown oov": ({"dimension": 2, "rows": 3, "oov": "skip"}, [1], "oov=skip: use one of error, default, hash"),
    "oov with hash_buckets": ({"dimension": 2, "hash_buckets": 3, "oov": "hash"}, [1], "leave oov out"),
    "weights without a combiner": (
        {"dimension": 2, "rows": 3, "weights": [[1.0]]},
        [[1]],
        "has weights but no combiner",
    ),
    "a combiner of single ids": (
        {"dimension": 2, "rows": 3, "combiner": "sum"},
        [1],
        r"shape \(1,\): use \[batch, n\]",
    ),
    "another number of fields": ({"dimension": 2, "rows": [3, 3]}, [[1]], "has 2 sizes"),
    "weights of another shape": (
        {"dimension": 2, "rows": 3, "combiner": "sum", "weights": [[1.0, 2.0]]},
        [[1]],
        r"weights of shape \(1, 2\) for ids of shape \(1, 1\)",
    ),
    "ids that are no whole numbers": (
        {"dimension": 2, "rows": 3},
        [1.0],
        "ids of float32: use whole numbers or strings",
    ),
    "capacity with rows": ({"dimension": 2, "rows": 3, "capacity": 3}, [1], "rows=3 and capacity=3: give one"),
    "no capacity": ({"dimension": 2, "capacity": 0}, [1], "capacity=0: use a whole number of at least 1"),
    "a capacity for each field": ({"dimension": 2, "capacity": [3, 4]}, [[1, 2]], r"capacity=\[3, 4\]: use a whole"),
    "admitted before it is seen": (
        {"dimension": 2, "capacity": 3, "admit_after": 0},
        [1],
        "table table has admit_after=0: use a whole number of at least 1",
    ),
    "expired at once": (
        {"dimension": 2, "capacity": 3, "expire_steps": 0},
        [1],
        "table table has expire_steps=0: use a whole number of at least 1",
    ),
    "half a step": ({"dimension": 2, "capacity": 3, "expire_steps": 1.5}, [1], "expire_steps=1.5: use a whole number"),
    "admit_after of fixed ids": (
        {"dimension": 2, "rows": 3, "admit_after": 2},
        [1],
        "admit_after=2 but no capacity: .*or leave admit_after out",
    ),
    "expire_steps of hashed ids": (
        {"dimension": 2, "hash_buckets": 3, "expire_steps": 2},
        [1],
        "expire_steps=2 but no capacity",
    ),
    "oov with capacity": (
        {"dimension": 2, "capacity": 3, "oov": "hash"},
        [1],
        "capacity and oov=hash: .*leave oov out",
    ),
    "floats with capacity": ({"dimension": 2, "capacity": 3}, [1.0], "ids of float32: use whole numbers or strings"),
    "an initializer of the whole table": (
        {"dimension": 2, "capacity": 3, "initializer": tf.keras.initializers.GlorotUniform},
        [1],
        "initializer=GlorotUniform, which does not work with capacity: use a number",
    ),
    "too great a capacity": ({"dimension": 2, "capacity": 2**31}, [1], "at most 2147483647"),
    "strings without buckets": ({"dimension": 2, "rows": 3}, ["a"], "declare it with hash_buckets"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_together_is_refused_with_what_does(name: str) -> None:
    declaration, ids, words = REFUSED[name]
    with pytest.raises(ModelError, match=words):
        looked_up(ids, **declaration)


def test_a_name_is_one_table_within_a_scope_and_declared_in_one_way() -> None:
    with tf.Graph().as_default():
        table = embeddings.Table("table", rows=5, dimension=2)
        embeddings.lookup(table, tf.constant([1]))
        embeddings.lookup("table", tf.constant([2]), rows=5, dimension=2)
        with v1.variable_scope("other"):
            embeddings.lookup("table", tf.constant([2]), rows=6, dimension=2)
        assert [v.op.name for v in v1.global_variables()] == ["table", "other/table"]
        with pytest.raises(ModelError, match="table table is declared twice"):
            embeddings.lookup("table", tf.constant([2]), rows=7, dimension=2)
        with pytest.raises(ModelError, match="given a Table and its declaration"):
            embeddings.lookup(table, tf.constant([2]), rows=5)
