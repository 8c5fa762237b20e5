"""A model of a user, trained, scored and exported by the package and by one plain session."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train import Arrays, Model
from ps_train.data.pipeline import DataSource
from ps_train.saved.export.export import export, prepare_export
from ps_train.training.tasks import evaluator
from tests.support.clusters.cluster import InProcessCluster, batches_of, train_plainly

STEPS, BATCH, RATE = 4, 4, 0.1
CITIES = np.array([b"rome", b"oslo", b"lima", b"unknown"])
CITY_FILE = "rome\noslo\nlima\n"


class UserModel(Model):
    """A forward function of the features, whose outputs are [batch, 1]; a mean squared error, and its metric.

    Args:
      words: the features are the names of cities instead of numbers [batch, 4].
    """

    def __init__(
        self, forward: Callable[..., Any], loss: Any = None, metrics: Any = None, words: bool = False, takes: int = 1
    ) -> None:
        self._forward, self._loss, self._metrics, self._words, self._takes = forward, loss, metrics, words, takes

    def data(self, split: str, data_dir: str) -> Arrays:
        random = np.random.default_rng(3)
        x = random.normal(size=(32, 4)).astype(np.float32)
        y = (x @ np.arange(1, 5).reshape(4, 1) / 4 + 0.5).astype(np.float32)
        return Arrays(CITIES[random.integers(0, len(CITIES), 32)] if self._words else x, y)

    def forward(self, features, training):
        return self._forward(*[features, training][: self._takes])

    def loss(self, outputs, labels):
        found = tf.reduce_mean(tf.square(outputs - labels))
        return found if self._loss is None else self._loss(outputs, labels, found)

    def metrics(self, outputs, labels):
        found = {"mse": v1.metrics.mean_squared_error(labels, outputs)}
        return found if self._metrics is None else found | self._metrics(outputs, labels)


def trained(model: Model, directory: pathlib.Path, accumulate: int = 1, **fields: Any) -> InProcessCluster:
    """After STEPS steps, and with a checkpoint of them in `directory`/model."""
    (directory / "model").mkdir(exist_ok=True)
    cluster = InProcessCluster(
        model,
        fields.pop("num_ps", 2),
        1,
        directory / "model",
        **{"batch_size": BATCH, "accumulate": accumulate, "optimizer": "sgd", "learning_rate": RATE, **fields},
    )
    cluster.start()
    cluster.initial = cluster.values()
    cluster.train(STEPS)
    assert cluster.checkpoints is not None
    cluster.checkpoints.save(cluster.sessions[0])
    return cluster


def check_training(
    model: Model, directory: pathlib.Path, accumulate: int = 1, reference: Model | None = None, **fields: Any
) -> InProcessCluster:
    """Trains, and compares with a plain session that begins with the same values.

    Args:
      reference: what the plain session trains, if not the same model."""
    cluster = trained(model, directory, accumulate, **fields)
    plain = train_plainly(
        reference or model,
        lambda: v1.train.GradientDescentOptimizer(RATE),
        cluster.initial,
        batches_of(model, BATCH * accumulate, STEPS),
    )
    values = cluster.values()
    assert plain.keys() <= values.keys(), (sorted(plain), sorted(values))
    for name, value in plain.items():
        assert values[name].dtype == value.dtype
        if value.dtype.kind in "fV":
            close = 1e-5 if value.dtype.itemsize > 2 else 2e-2
            found, expected = values[name].astype(np.float64), value.astype(np.float64)
            np.testing.assert_allclose(found, expected, atol=close, rtol=close, err_msg=name)
        else:
            np.testing.assert_array_equal(values[name], value, err_msg=name)
    assert any(not np.array_equal(value, cluster.initial[name]) for name, value in plain.items())
    return cluster


def check_scores(model: Model, cluster: InProcessCluster) -> dict[str, float]:
    """What the chief finds on the ps is what an evaluator finds in the checkpoint, and what numpy finds."""
    checkpoint = cluster.checkpoints.path(STEPS)
    found = cluster.score()
    scored = evaluator.score(model, DataSource(lambda: model.data("test", "")), checkpoint)
    assert found.keys() == scored.keys()
    for name, value in found.items():
        np.testing.assert_allclose(scored[name], value, rtol=1e-4, err_msg=name)
    return found


def check_export(model: Model, cluster: InProcessCluster, directory: pathlib.Path) -> np.ndarray:
    """The outputs of a loaded SavedModel for the test data have the error that was scored; returns them."""
    data = model.data("test", "")
    exports = prepare_export(str(directory / "export"))
    where = export(model, DataSource(lambda: model.data("train", "")), cluster.checkpoints.path(STEPS), exports)
    with tf.Graph().as_default(), v1.Session() as session:
        loaded = v1.saved_model.load(session, ["serve"], where)
        signature = loaded.signature_def["serving_default"]
        (name,) = (one.name for one in signature.inputs.values())
        plain = session.run(signature.outputs["outputs"].name, {name: data.features})
    served = tf.saved_model.load(where).signatures["serving_default"](features=tf.constant(data.features))["outputs"]
    np.testing.assert_allclose(plain, served.numpy(), rtol=1e-5)
    error = np.mean(np.square(plain - data.labels))
    np.testing.assert_allclose(error, cluster.score()["mse"], rtol=1e-3)
    return plain
