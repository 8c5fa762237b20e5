"""A compiled Keras model with data trains, scores and exports as a model of the engine; the references are Keras."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import ps_train
from ps_train.base.errors import ConfigError
from ps_train.data.data_shard import DataShard
from ps_train.data.pipeline import DataSource
from ps_train.engine.step.evaluation import evaluate, metric_values, run_batches
from ps_train.engine.step.slices import Slices
from ps_train.modeling.keras.keras_model import KerasModel
from ps_train.saved.export.export import export, prepare_export
from ps_train.training.tasks import evaluator
from tests.support.clusters.cluster import InProcessCluster
from tests.support.long import long

RANDOM = np.random.RandomState(0)
WORDS = RANDOM.randint(0, 50, (96, 7)).astype(np.int32)
KINDS = RANDOM.randint(0, 4, 96).astype(np.int64)
X = RANDOM.randn(96, 5).astype(np.float32)
CLASSES = (X.sum(1) > 0).astype(np.int32) + (WORDS[:, 0] > 25)
BATCH, STEPS = 16, 6


def mlp() -> keras.Model:
    layers = [keras.Input((5,)), keras.layers.Dense(8, activation="relu", kernel_regularizer="l2")]
    return keras.Sequential([*layers, keras.layers.BatchNormalization(), keras.layers.Dense(3)])


def words() -> keras.Model:
    """A mask, a loop that reads weights inside, several inputs."""
    word, x = keras.Input((7,), dtype="int32", name="word"), keras.Input((5,), name="x")
    kind = keras.Input((), dtype="int64", name="kind")
    hidden = keras.layers.LSTM(6)(keras.layers.Embedding(50, 4, mask_zero=True)(word))
    joined = keras.layers.Concatenate()([hidden, x, keras.layers.Embedding(4, 2)(kind)])
    return keras.Model({"word": word, "x": x, "kind": kind}, keras.layers.Dense(3)(joined))


def compiled(make: Callable[[], keras.Model], **options: Any) -> keras.Model:
    keras.backend.clear_session()  # the names of layers begin anew
    keras.utils.set_random_seed(3)
    network = make()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # Keras's Adam does not add up the gradients of an id that occurs several times.
    optimizer = keras.optimizers.SGD(0.1) if make is words else keras.optimizers.Adam(0.01)
    given = {"optimizer": optimizer, "loss": loss, "metrics": ["accuracy"], "jit_compile": False, **options}
    network.compile(**given)
    return network


def half() -> keras.Model:
    """It computes in float16."""
    layers = [keras.layers.Dense(8, "relu", dtype="mixed_float16"), keras.layers.Dense(3, dtype="float32")]
    return keras.Sequential([keras.Input((5,)), *layers])


def features(make: Callable[[], keras.Model]) -> Any:
    return X if make is not words else {"word": WORDS, "x": X, "kind": KINDS}


def of(make: Callable[[], keras.Model], **options: Any) -> KerasModel:
    def data(split: str, data_dir: str) -> ps_train.Arrays:
        return ps_train.Arrays(features(make), CLASSES)

    return KerasModel(compiled(make, **options), data)


def fitted(make: Callable[[], keras.Model], **options: Any) -> keras.Model:
    """The model after STEPS steps of `fit`."""
    network = compiled(make, **options)
    data = tf.data.Dataset.from_tensor_slices((features(make), CLASSES)).repeat().batch(BATCH)
    network.fit(data, steps_per_epoch=STEPS, epochs=1, verbose=0)
    return network


def trained(model: KerasModel, directory: pathlib.Path, num_ps: int = 2, **fields: Any) -> InProcessCluster:
    cluster = InProcessCluster(model, num_ps, 1, directory, **{"batch_size": BATCH, **fields})
    cluster.start()
    cluster.train(STEPS)
    assert cluster.checkpoints is not None
    cluster.checkpoints.save(cluster.sessions[0])
    return cluster


def check_values(cluster: InProcessCluster, network: keras.Model) -> None:
    values = cluster.values()
    for one in network.weights:
        np.testing.assert_allclose(values[one.path], one.numpy(), atol=2e-6, rtol=1e-5, err_msg=one.path)


def check_metrics(found: dict[str, float], network: keras.Model, x: Any, y: Any) -> None:
    expected = network.evaluate(x, y, verbose=0, return_dict=True)
    assert found == {name: pytest.approx(value, rel=1e-4) for name, value in expected.items()}


@pytest.mark.parametrize("make", [mlp, long(words)])
def test_training_scores_and_exports_are_those_of_keras(make: Any, tmp_path: pathlib.Path) -> None:
    (tmp_path / "model").mkdir()
    model, network = of(make), fitted(make)
    cluster = trained(model, tmp_path / "model")
    check_values(cluster, network)

    check_metrics(cluster.score(), network, features(make), CLASSES)
    # Another process, which has not trained, finds the same in the checkpoint.
    checkpoint = cluster.checkpoints.path(STEPS)
    test = DataSource(lambda: model.data("test", ""))
    check_metrics(evaluator.score(of(make), test, checkpoint), network, features(make), CLASSES)

    where = export(of(make), test, checkpoint, prepare_export(str(tmp_path / "export")))
    given = {"features": X} if make is mlp else features(make)
    served = tf.saved_model.load(where).signatures["serving_default"]
    outputs = served(**{name: tf.constant(value) for name, value in given.items()})["outputs"]
    np.testing.assert_allclose(outputs, network.predict(features(make), verbose=0), atol=1e-5)


@pytest.mark.parametrize("make", [mlp, long(words)])
def test_shards_and_slices_of_the_test_data_add_up(make: Any, tmp_path: pathlib.Path) -> None:
    network = compiled(make)
    cluster = InProcessCluster(of(make), 1, 2, batch_size=BATCH)
    cluster.start()
    shards = [cluster.scoring(DataShard(index, 2), index) for index in (0, 1)]
    totals = []
    for session, scoring in shards:
        run_batches(session, scoring)
        assert scoring.metric_sums is not None
        totals.append(session.run(scoring.metric_sums.own))
    session, scoring = shards[0]
    session.run(scoring.metric_sums.load, scoring.metric_sums.feeds(totals))
    check_metrics(metric_values(session, scoring), network, features(make), CLASSES)
    if make is words:
        found = evaluate(*cluster.scoring(slices=Slices("kind", ("2",))))
        rows = KINDS == 2
        own = {name.partition("/")[0]: value for name, value in found.items() if "kind=2" in name}
        check_metrics(
            {name: own[name] for name in ("loss", "accuracy")},
            network, {name: value[rows] for name, value in features(make).items()}, CLASSES[rows],
        )  # fmt: skip


@pytest.mark.long
def test_a_given_learning_rate_takes_the_place_of_the_optimizers(tmp_path: pathlib.Path) -> None:
    cluster = trained(of(mlp), tmp_path, learning_rate=0.05)
    check_values(cluster, fitted(mlp, optimizer=keras.optimizers.Adam(0.05)))


def test_two_workers_draw_different_dropout_masks() -> None:
    def dropped() -> keras.Model:
        return keras.Sequential([keras.Input((5,)), keras.layers.Dropout(0.5), keras.layers.Dense(3)])

    same = ps_train.Arrays(np.ones((64, 5), np.float32), np.ones(64, np.int32))
    model = KerasModel(compiled(dropped), lambda split, data_dir: same)
    cluster = InProcessCluster(model, 1, 2, batch_size=BATCH, update="async")
    cluster.start()
    losses = [session.run(step.worker.loss) for session, step in zip(cluster.sessions, cluster.steps, strict=True)]
    assert losses[0] != losses[1]


def test_gradients_that_overflow_make_no_update(tmp_path: pathlib.Path) -> None:
    """The first two steps overflow, and the scale halves; after three good ones it doubles."""

    def scaled() -> keras.optimizers.LossScaleOptimizer:
        return keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01), 2.0**19, dynamic_growth_steps=3)

    network = fitted(half, optimizer=scaled())
    assert int(network.optimizer.iterations) in range(1, STEPS)
    cluster = trained(of(half, optimizer=scaled()), tmp_path)
    check_values(cluster, network)
    assert cluster.global_step() == int(network.optimizer.iterations)
    local = {one.op.name: one for one in cluster.steps[0].graph.get_collection("local_variables")}
    factor = cluster.sessions[0].run(local["ps_train_scale/factor"])
    assert factor == float(network.optimizer.dynamic_scale)


@pytest.mark.long
@pytest.mark.parametrize("name", ["model.keras", long("model.weights.h5")])
def test_a_warm_start_takes_the_values_of_a_file_of_keras(name: str, tmp_path: pathlib.Path) -> None:
    network, path = fitted(mlp), tmp_path / name
    (network.save if name.endswith(".keras") else network.save_weights)(path)
    model = of(mlp)
    assert model.saved_values(str(path), "") == {}  # before it is traced
    before = [one.numpy() for one in model.network.weights]
    cluster = InProcessCluster(model, 2, 1, batch_size=BATCH)
    cluster.start()
    found = model.saved_values(str(path), "")
    assert found is not None and found["global_step"] == STEPS
    for one in network.weights:
        np.testing.assert_array_equal(found[one.path], one.numpy())
    slots = {name for name in found if name.endswith("momentum") and "normalization" not in name}
    assert len(slots) == 4 and slots <= cluster.values().keys()
    for one, value in zip(model.network.weights, before, strict=True):
        np.testing.assert_array_equal(one.numpy(), value)
    with pytest.raises(ConfigError, match=r"^warm_start=x does not fit model functional: "):
        other = of(words)
        InProcessCluster(other, 1, 1, batch_size=BATCH)
        other.saved_values(str(path), "warm_start=x")
    with pytest.raises(ConfigError, match=r"^warm_start=x: there is no file "):
        model.saved_values(str(tmp_path / "none.keras"), "warm_start=x")
    assert model.saved_values(str(tmp_path), "") is None
