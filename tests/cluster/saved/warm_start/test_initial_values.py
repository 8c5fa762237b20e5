"""A table that begins with given rows: id i gets row i, whatever the number of ps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, embeddings
from ps_train.base.errors import ModelError
from ps_train.data.pipeline import DataSource
from ps_train.engine.variables import initialization
from ps_train.modeling.tables.row_order import positions_of
from ps_train.saved.export.export import export
from ps_train.saved.warm_start import writing
from ps_train.training.tasks.evaluator import score
from tests.support.clusters.cluster import InProcessCluster
from tests.support.models.small import Linear

ROWS, DIMENSION = 600, 2
PRE = np.arange(ROWS * DIMENSION, dtype=np.float32).reshape(ROWS, DIMENSION)
ORDERS = (PRE[100:110], PRE[[100, 351]])
"""Pieces of the rows as an array has them, and as a table does."""


def computed(shape: Any, dtype: Any = None) -> tf.Tensor:
    return tf.cast(tf.reshape(tf.range(int(np.prod(shape))), shape), dtype or tf.float32)


def from_numpy(shape: Any, dtype: Any = None) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float64).reshape(shape)


class Doubled:
    """Like an initializer, called with keywords."""

    def __call__(self, shape, dtype=None, **_):
        return computed(shape, dtype)


SOURCES: dict[str, Callable[[int], Any]] = {
    "array": lambda n: PRE[:n],
    "array of float64": lambda n: PRE[:n].astype(np.float64),
    "list": lambda n: PRE[:n].tolist(),
    "constant of TensorFlow 1": lambda n: v1.constant_initializer(PRE[:n]),
    "constant of TensorFlow 1, flat": lambda n: v1.constant_initializer(PRE[:n].ravel().tolist()),
    "constant of TensorFlow 2": lambda n: tf.constant_initializer(PRE[:n]),
    "constant of Keras": lambda n: tf.keras.initializers.Constant(PRE[:n]),
    "function": lambda n: computed,
    "function of numpy": lambda n: from_numpy,
    "object": lambda n: Doubled(),
    "class": lambda n: Doubled,
    "tensor": lambda n: tf.constant(PRE[:n]) + tf.zeros([n, 1]),
}


class Given(Linear):
    """The outputs are an id's row; the loss has no gradient but for row 0's."""

    def __init__(self, source: Callable[[int], Any], rows: Any = ROWS, **declaration: Any) -> None:
        self.source, self.declaration = source, {"rows": rows, "dimension": DIMENSION, **declaration}

    def data(self, split: str, data_dir: str) -> Arrays:
        return Arrays(
            np.arange(ROWS, dtype=np.int64)[: self.declaration["rows"]],
            np.zeros(ROWS, np.float32)[: self.declaration["rows"]],
        )

    def forward(self, features, training):
        declaration = {"initializer": self.source(self.declaration["rows"]), **self.declaration}
        return embeddings.lookup("t", features, **declaration)

    def loss(self, outputs, labels):
        return 0.0 * tf.reduce_sum(outputs)

    def metrics(self, outputs, labels):
        return {"sum": v1.metrics.mean(tf.reduce_sum(outputs, 1))}


def by_id(cluster: InProcessCluster) -> np.ndarray:
    table = cluster.values()["t"]
    return table[positions_of(np.arange(len(table)), len(table))]


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.usual(4)
def test_id_i_begins_with_row_i(name: str) -> None:
    cluster = InProcessCluster(Given(SOURCES[name], rows=7), 2, 1, optimizer="sgd", batch_size=7)
    cluster.start()
    assert np.array_equal(by_id(cluster), PRE[:7])


@pytest.mark.long
@pytest.mark.parametrize("num_ps", [1, 2, 3])
def test_the_rows_are_in_the_same_order_for_any_number_of_ps_and_in_any_parts(num_ps, monkeypatch, tmp_path) -> None:
    for module in (initialization, writing):
        monkeypatch.setattr(module, "CHUNK_BYTES", 800)  # 100 rows
    model = Given(SOURCES["constant of TensorFlow 1"])
    cluster = InProcessCluster(model, num_ps, 2, tmp_path, optimizer="sgd", batch_size=10)
    cluster.start()
    assert np.array_equal(by_id(cluster), PRE)
    expected = {"sum": pytest.approx(PRE.sum() / ROWS)}
    assert cluster.score() == expected
    cluster.train(2)
    assert cluster.checkpoints is not None
    cluster.checkpoints.save(cluster.sessions[0])
    (found,) = tmp_path.glob("model.ckpt-*.index")
    checkpoint = str(found).removesuffix(".index")
    assert score(model, DataSource(lambda: model.data("test", "")), checkpoint) == expected
    (tmp_path / "export").mkdir()
    served = tf.saved_model.load(
        export(model, DataSource(lambda: model.data("train", "")), checkpoint, str(tmp_path / "export"))
    )
    outputs = served.signatures["serving_default"](features=tf.constant([0, 1, ROWS - 1], tf.int64))
    assert np.array_equal(next(iter(outputs.values())), PRE[[0, 1, -1]])
    (graph,) = (tmp_path / "export").rglob("saved_model.pb")
    assert not any(order.tobytes() in graph.read_bytes() for order in ORDERS)


def test_fields_follow_each_other_and_their_default_rows_come_last() -> None:
    class Fields(Given):
        def data(self, split, data_dir):
            ids = np.array([[0, 0], [1, 1], [2, 2], [3, 3]], np.int64)
            return Arrays(ids, np.zeros(4, np.float32))

    cluster = InProcessCluster(
        Fields(lambda _: PRE[:9], rows=[3, 4], oov="default"), 2, 1, optimizer="sgd", batch_size=4
    )
    cluster.start()
    assert np.array_equal(by_id(cluster), PRE[:9])


@pytest.mark.long
def test_given_rows_are_in_no_graph() -> None:
    cluster = InProcessCluster(Given(SOURCES["array"]), 2, 1, optimizer="sgd", batch_size=10)
    graph = cluster.steps[0].graph.as_graph_def().SerializeToString()
    assert not any(order.tobytes() in graph for order in ORDERS)


@pytest.mark.long
def test_a_restored_table_keeps_its_rows(tmp_path) -> None:
    def started(restore, source):
        cluster = InProcessCluster(Given(source), 2, 1, tmp_path, optimizer="sgd", batch_size=10)
        cluster.start(restore)
        return cluster

    first = started(False, lambda n: PRE[:n])
    assert first.checkpoints is not None
    first.checkpoints.save(first.sessions[0])
    assert np.array_equal(by_id(started(True, lambda n: PRE[:n] + 1)), PRE)


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "declaration", "text"),
    [
        (PRE[:5], {}, r"table t begins with given values of shape \(5, 2\): give \(7, 2\), where row i is"),
        (PRE[:7].T, {}, r"of shape \(2, 7\): give \(7, 2\)"),
        (v1.constant_initializer(PRE[:5]), {}, r"of shape \(5, 2\): give \(7, 2\)"),
        (PRE[:7], {"oov": "default"}, r"of shape \(7, 2\): give \(8, 2\), .* default row"),
        (lambda shape, dtype: tf.zeros([3, 2]), {}, r"of shape \(3, 2\): give \(7, 2\)"),
        (lambda shape, dtype: np.zeros([3, 2]), {}, r"of shape \(3, 2\): give \(7, 2\)"),
        (lambda shape, dtype: 1 / 0, {}, "the initializer of table t raised ZeroDivisionError"),
        (np.full([7, 2], "a"), {}, "table t begins with given values of string: use numbers"),
        ("zeros", {}, "table t has initializer='zeros': use a number, an array"),
        (PRE[:7], {"rows": None, "hash_buckets": 7}, "table t has hash_buckets and begins with given values"),
        (PRE[:7], {"rows": None, "capacity": 7}, "table t has initializer=ndarray, which does not work with capacity"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_given_are_refused_before_any_step(source: Any, declaration: dict, text: str) -> None:
    class Refused(Given):
        def data(self, split, data_dir):
            return Arrays(np.arange(7, dtype=np.int64), np.zeros(7, np.float32))

    with pytest.raises(ModelError, match=text) as caught:
        InProcessCluster(Refused(lambda _: source, **{"rows": 7, **declaration}), 1, 1, optimizer="sgd", batch_size=7)
    assert "\n" not in str(caught.value)


def test_a_function_of_unknown_shape_is_refused_when_it_is_called() -> None:
    def unknown(shape, dtype):
        return tf.zeros(v1.placeholder_with_default([3, 2], [None]))

    cluster = InProcessCluster(Given(lambda _: unknown, rows=7), 1, 1, optimizer="sgd", batch_size=7)
    with pytest.raises(ModelError, match=r"of shape \(3, 2\): give \(7, 2\)"):
        cluster.start()
