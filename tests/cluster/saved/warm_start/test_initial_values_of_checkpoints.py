"""`tf.train.init_from_checkpoint` in a model: the variables begin with the values of another training."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, embeddings
from ps_train.base.errors import ModelError
from ps_train.modeling.tables.row_order import positions_of
from tests.support.clusters.cluster import InProcessCluster
from tests.support.models.small import Linear

ROWS = 600
_random = np.random.default_rng(5)
OLD = {
    "net/w": _random.normal(size=(40, 3)).astype(np.float32),
    "net/b": _random.normal(size=3).astype(np.float32),
    "net/mean": _random.normal(size=3).astype(np.float32),
    "t": _random.normal(size=(ROWS, 3)).astype(np.float32),
}


@pytest.fixture
def old(tmp_path: pathlib.Path) -> str:
    """A checkpoint that TensorFlow 1 wrote, of variables that it cut into parts."""
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(2)):
            for name, value in OLD.items():
                v1.get_variable(name, initializer=tf.constant(value))
        session.run(v1.global_variables_initializer())
        return str(v1.train.Saver().save(session, str(tmp_path / "old" / "model.ckpt"), 70))


class Net(Linear):
    """A dense layer, its state, and a table, all of which may begin with other values."""

    def __init__(self, begin: Callable[[dict[str, Any]], None], scope: str = "net") -> None:
        self.begin, self.scope = begin, scope

    def data(self, split, data_dir):
        return Arrays(np.arange(ROWS, dtype=np.int64), np.zeros((ROWS, 3), np.float32))

    def forward(self, features, training):
        with v1.variable_scope(self.scope, use_resource=True):
            w = v1.get_variable("w", [40, 3], partitioner=v1.fixed_size_partitioner(2))
            b = v1.get_variable("b", [3], initializer=v1.zeros_initializer())
            mean = v1.get_variable("mean", [3], initializer=v1.zeros_initializer(), trainable=False)
        rows = embeddings.lookup("t", features, rows=ROWS, dimension=3)
        self.begin({"w": w, "b": b, "mean": mean})
        if training:
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, mean.assign(0.5 * mean + 1.0))
        return rows + tf.reduce_mean(tf.convert_to_tensor(w), 0) + b

    def metrics(self, outputs, labels):
        return {"sum": v1.metrics.mean(tf.reduce_sum(outputs, 1))}


def started(begin: Callable[..., None], num_ps: int = 2, directory: Any = None, restore: bool = False, **more: Any):
    fields = {"optimizer": "momentum", "batch_size": 8, **more}
    model = Net(begin, fields.pop("scope", "net"))
    cluster = InProcessCluster(model, num_ps, 1, directory, partition_bytes=128, **fields)
    cluster.start(restore)
    return cluster


def values(cluster: InProcessCluster) -> dict[str, np.ndarray]:
    found = cluster.values()
    return {**found, "t": found["t"][positions_of(np.arange(ROWS), ROWS)]}


FORMS: dict[str, tuple[Callable[[dict[str, Any]], Any], str, set[str]]] = {
    "all": (lambda _: {"/": "/"}, "net", {"net/w", "net/b", "net/mean", "t"}),
    "scope to scope": (lambda _: {"net/": "new/"}, "new", {"net/w", "net/b", "net/mean"}),
    "name to name": (lambda _: {"net/w": "new/w", "t": "t"}, "new", {"net/w", "t"}),
    "pairs": (lambda _: [("net/b", "net/b"), ("net/mean", "net/mean")], "net", {"net/b", "net/mean"}),
    "name to variable": (
        lambda v: {"net/b": v["b"], "net/w": v["w"], "net/mean": v["mean"]},
        "net",
        {"net/b", "net/w", "net/mean"},
    ),
    "name to parts": (lambda v: {"net/w": list(v["w"])}, "net", {"net/w"}),
}


@pytest.mark.parametrize("num_ps", [1, 2])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usual(2)
def test_variables_begin_with_the_values_of_another_checkpoint(old: str, form: str, num_ps: int) -> None:
    assignment, scope, begun = FORMS[form]
    cluster = started(lambda v: v1.train.init_from_checkpoint(old, assignment(v)), num_ps, scope=scope)
    assert len(cluster.plan.slices_of("t")) == num_ps
    found = values(cluster)
    for name, value in OLD.items():
        here = name.replace("net/", f"{scope}/")
        assert np.array_equal(found[here], value) == (name in begun), name
    assert found["global_step"] == 0
    expected = found["t"].sum(1).mean() + found[f"{scope}/w"].mean(0).sum() + found[f"{scope}/b"].sum()
    assert cluster.score() == {"sum": pytest.approx(expected, rel=1e-4)}


@pytest.mark.long
def test_a_directory_names_its_newest_checkpoint(old: str) -> None:
    directory = str(pathlib.Path(old).parent)
    assert np.array_equal(
        values(started(lambda _: v1.train.init_from_checkpoint(directory, {"t": "t"})))["t"], OLD["t"]
    )


@pytest.mark.long
def test_a_resumed_training_keeps_its_values_and_another_begins_with_them(old: str, tmp_path) -> None:
    def begin(_):
        v1.train.init_from_checkpoint(old, {"/": "/"})

    first = started(begin, 2, tmp_path / "first")
    first.train(3)
    assert first.checkpoints is not None
    first.checkpoints.save(first.sessions[0])
    trained = values(first)
    assert not np.array_equal(trained["net/w"], OLD["net/w"]) and trained["global_step"] == 3
    resumed = values(started(begin, 1, tmp_path / "first", restore=True))
    second = values(started(lambda _: v1.train.init_from_checkpoint(str(tmp_path / "first"), {"/": "/"}), 1))
    for name in OLD:
        assert np.array_equal(resumed[name], trained[name]), name
        assert np.array_equal(second[name], trained[name]), "a table of ps_train has its own order of rows"
    assert resumed["global_step"] == 3 and second["global_step"] == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        ({"net/x": "net/w"}, "Tensor net/x is not found in .* checkpoint"),
        ({"other/": "net/"}, "is not found in .* checkpoint"),
        ({"net/w": "nothing"}, "Assignment map with scope only name"),
        ({"net/b": "net/w"}, r"Shape of variable net/w:0 \(\(40, 3\)\) doesn't match with shape of tensor net/b"),
    ],
)
def test_wrong_names_are_tensorflows_error_in_one_line(old: str, assignment: Any, text: str) -> None:
    with pytest.raises(ModelError, match=text) as caught:
        started(lambda _: v1.train.init_from_checkpoint(old, assignment))
    assert "\n" not in str(caught.value)


def test_a_checkpoint_that_is_not_there_is_an_error_of_one_line(tmp_path) -> None:
    with pytest.raises(ModelError, match="nowhere") as caught:
        started(lambda _: v1.train.init_from_checkpoint(str(tmp_path / "nowhere"), {"/": "/"}))
    assert "\n" not in str(caught.value)


def test_another_dtype_is_refused(tmp_path) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("net/b", initializer=np.zeros(3, np.float64))
        session.run(v1.global_variables_initializer())
        path = v1.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    with pytest.raises(
        ModelError, match=r"Variable net/b \(float32 \[3\]\) doesn't match tensor net/b \(float64 \[3\]\)"
    ):
        started(lambda _: v1.train.init_from_checkpoint(path, {"net/b": "net/b"}))


class Users(Linear):
    """A table with an open vocabulary; the output is the sum of an id's row."""

    def __init__(self, assignment: Any = None, path: str = "") -> None:
        self.assignment, self.path = assignment, path

    def data(self, split, data_dir):
        return Arrays(np.arange(40, dtype=np.int64) * 1001, np.ones(40, np.float32))

    def forward(self, features, training):
        rows = embeddings.lookup("users", features, capacity=100, dimension=2)
        if self.assignment is not None:
            v1.train.init_from_checkpoint(self.path, self.assignment)
        return tf.reduce_sum(rows, 1) + 0.0 * v1.get_variable("w", [])

    def metrics(self, outputs, labels):
        return {"loss": v1.metrics.mean((outputs - labels) ** 2)}


@pytest.mark.long
def test_an_open_vocabulary_begins_with_all_of_its_variables_or_none(tmp_path) -> None:
    fields = {"optimizer": "adagrad", "learning_rate": 0.5, "batch_size": 20}
    old = InProcessCluster(Users(), 2, 1, tmp_path, **fields)
    old.start()
    before = old.score()["loss"]
    old.train(20)
    assert old.checkpoints is not None
    old.checkpoints.save(old.sessions[0])
    new = InProcessCluster(Users({"/": "/"}, str(tmp_path)), 1, 1, **fields)
    new.start()
    assert new.score() == old.score() and new.score()["loss"] < 0.1 * before
    new.train(2)
    assert new.score()["loss"] <= old.score()["loss"], "ids have the rows that they had"
    with pytest.raises(ModelError, match="a part of table users, which has capacity, but not users/"):
        InProcessCluster(Users({"users": "users"}, str(tmp_path)), 1, 1, **fields)
