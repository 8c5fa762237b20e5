"""Models of a strategy's scope train on ps and workers, and are Keras's own for everything else."""

from __future__ import annotations

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError, ModelError, ps_train_error
from ps_train.compat.distribute import joined
from ps_train.compat.distribute.strategy import ParameterServerStrategy
from ps_train.compat.scripts import coordinated
from ps_train.modeling.keras.tracing import tracing

X = np.random.RandomState(0).rand(32, 4).astype("f")
Y = np.random.RandomState(1).randint(0, 2, 32)
CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}


def compiled(model):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    return model


class Subclass(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, x):
        return self.dense(x)


class OwnFit(keras.Sequential):
    def fit(self, *args, **kwargs):
        return super().fit(*args, **kwargs)


def functional():
    x = keras.Input((4,))
    return keras.Model(x, keras.layers.Dense(2)(x))


def sequential():
    return keras.Sequential([keras.layers.Dense(8), keras.layers.Dropout(0.1), keras.layers.Dense(2)])


@pytest.mark.parametrize("make", [sequential, functional, Subclass, lambda: OwnFit([keras.layers.Dense(2)])])
def test_every_kind_of_model_of_the_scope_trains_on_the_cluster(fits, make):
    strategy = ParameterServerStrategy(num_ps=2, num_workers=4, update="sync")
    with strategy.scope():
        model = compiled(make())
    history = model.fit(X, Y, epochs=2, verbose=0)
    assert [len(history.history["loss"]), len(fits)] == [2, 1]
    assert fits[0] == {"model": model, "epochs": 2, "num_ps": 2, "num_workers": 4, "update": "sync"}


def test_a_model_that_was_cloned_or_loaded_in_the_scope_trains_on_the_cluster(fits, tmp_path):
    strategy = ParameterServerStrategy()
    plain = compiled(functional())
    plain.fit(X, Y, verbose=0)
    plain.save(tmp_path / "m.keras")
    assert fits == []
    with strategy.scope():
        clone, loaded = compiled(keras.models.clone_model(plain)), keras.models.load_model(tmp_path / "m.keras")
        compiled(plain).fit(X, Y, verbose=0)  # made outside, compiled and trained in the scope
    for model in (clone, loaded):
        model.fit(X, Y, verbose=0)
    assert [call["model"] for call in fits] == [plain, clone, loaded]


def test_other_methods_are_keras_own(fits, tmp_path):
    plain = compiled(functional())
    strategy = ParameterServerStrategy(num_workers=3)
    with strategy.scope():
        model = compiled(functional())
    model.set_weights(plain.get_weights())
    np.testing.assert_allclose(model.evaluate(X, Y, verbose=0), plain.evaluate(X, Y, verbose=0), rtol=1e-6)
    np.testing.assert_allclose(model.predict(X, verbose=0), plain.predict(X, verbose=0), rtol=1e-6)
    with strategy.scope():
        np.testing.assert_allclose(model.evaluate(X, Y, verbose=0), plain.evaluate(X, Y, verbose=0), rtol=1e-6)
    model.save(tmp_path / "m.keras")
    loaded = keras.models.load_model(tmp_path / "m.keras")
    assert fits == [] and not isinstance(loaded.distribute_strategy, ParameterServerStrategy)


def test_num_replicas_is_the_number_of_workers_of_a_batch_and_one_in_a_traced_step():
    assert ParameterServerStrategy(num_workers=3).num_replicas_in_sync == 1, "each batch is of one worker"
    strategy = ParameterServerStrategy(num_workers=3, update="sync")
    assert strategy.num_replicas_in_sync == 3
    model = compiled(functional())
    right = float(model.compute_loss(X, Y, model(X)))
    with strategy.scope(), tracing():
        assert strategy.num_replicas_in_sync == 1
        assert float(model.compute_loss(X, Y, model(X))) == right
        assert float(strategy.run(lambda: tf.nn.compute_average_loss(tf.ones([4])))) == 1
    assert strategy.num_replicas_in_sync == 3


def test_the_cluster_is_that_of_tf_config(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 1}}))
    strategy = ParameterServerStrategy()
    assert (strategy.num_workers, strategy.flags) == (3, {})
    assert (strategy.cluster_resolver.task_type, strategy.cluster_resolver.task_id) == ("worker", 1)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"num_pss": 2}, "num_pss"),
        ({"update": "never"}, "update"),
        ({"num_workers": 0}, "num_workers"),
        ({"batch_size": 8}, "batch_size (from ParameterServerStrategy()) is an argument of fit"),
    ],
)
def test_a_wrong_flag_is_refused_where_it_is_written(flags, text):
    with pytest.raises(ConfigError, match=r".+") as caught:
        ParameterServerStrategy(**flags)
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_legacy_keras_is_refused(monkeypatch):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", "1")
    with pytest.raises(ConfigError, match=r"TF_USE_LEGACY_KERAS=1 .* Keras 3"):
        ParameterServerStrategy()


def loop(strategy):
    """The loop of the custom training guide."""
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = functional()
        optimizer, accuracy = keras.optimizers.Adam(0.1), keras.metrics.SparseCategoricalAccuracy()
        loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def step(batch):
        x, y = batch
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = tf.nn.compute_average_loss(loss_of(y, logits), global_batch_size=8)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        accuracy.update_state(y, logits)
        return loss

    @tf.function
    def train(batch):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=(batch,)), axis=None)

    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    return [float(train(batch)) for batch in strategy.experimental_distribute_dataset(data)]


def test_a_loop_of_its_own_runs_unchanged_with_one_worker():
    assert loop(ParameterServerStrategy(num_workers=1)) == loop(tf.distribute.get_strategy())


def test_a_loop_of_its_own_is_refused_where_only_this_process_would_run_it():
    with pytest.raises(Exception, match=r"Adam.apply_gradients .* 2 workers.* python -m ps_train run .*fit") as caught:
        loop(ParameterServerStrategy(num_workers=2))
    assert isinstance(ps_train_error(caught.value), ModelError)  # within AutoGraph's own
    plain = compiled(functional())
    plain.fit(X, Y, verbose=0)  # without a strategy


@pytest.fixture
def in_task(monkeypatch):
    """Makes this process a task of a launcher's cluster; returns the directory in which the chief asks."""
    with coordinated.asked_in({}, asks_workers=False) as environ:

        def call(job, index=0):
            monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": CLUSTER, "task": {"type": job, "index": index}}))
            monkeypatch.setenv(coordinated.DIRECTORY_VARIABLE, environ[coordinated.DIRECTORY_VARIABLE])
            return pathlib.Path(environ[coordinated.DIRECTORY_VARIABLE])

        yield call


def test_a_loop_has_this_worker_s_part_and_keras_has_all(in_task):
    in_task("worker")
    strategy = ParameterServerStrategy(update="sync")
    with strategy.scope():
        model = compiled(functional())
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)
    part = strategy.experimental_distribute_dataset(data)  # of worker 1 of 3
    assert [len(x) for x, _ in part] == [5, 5]
    np.testing.assert_array_equal(next(iter(part))[0], X[5:10])
    assert model.predict(data, verbose=0).shape == (32, 2)
    seen = []
    strategy.distribute_datasets_from_function(lambda context: seen.append(context) or data)
    assert (seen[0].num_input_pipelines, seen[0].input_pipeline_id, seen[0].num_replicas_in_sync) == (3, 1, 3)
    assert float(strategy.reduce("SUM", tf.constant(2.0))) == 6.0
    assert float(strategy.reduce(tf.distribute.ReduceOp.MEAN, tf.constant(2.0))) == 2.0


def fit_in(strategy, **options):
    with strategy.scope():
        model = compiled(functional())
    return model.fit(X, Y, **options)


def test_no_task_asks_before_the_step_of_a_fit_is_traced(fits, in_task):
    directory = in_task("chief")
    fit_in(ParameterServerStrategy(update="sync"))
    assert [*directory.glob("fit-*")] == [] and len(fits) == 1


def test_a_ps_serves_in_every_fit_and_ends(fits, in_task, monkeypatch):
    directory, served = in_task("ps"), []
    monkeypatch.setattr(joined.ps, "run", lambda job, task, console: served.append((job.update, str(task))) or 0)
    for _ in range(2):
        joined.ask(str(directory), ["--update=sync"])
    (directory / "end").touch()
    with pytest.raises(SystemExit) as caught:
        fit_in(ParameterServerStrategy(update="sync"))
    assert caught.value.code == 0 and served == [("sync", "ps:0")] * 2 and fits == []


def test_in_a_launchers_task_each_epoch_has_one_line(fits, in_task, capsys):
    in_task("chief")
    fit_in(ParameterServerStrategy(), epochs=2)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and lines[0] == "Epoch 1/2"
    fit_in(ParameterServerStrategy(), verbose=0)
    assert capsys.readouterr().out == ""


def test_a_fit_in_a_scope_trains_outside_of_it(fits):
    strategy, seen = ParameterServerStrategy(num_workers=3), []
    callback = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda *_: seen.append((tf.distribute.has_strategy(), strategy.num_replicas_in_sync))
    )
    with strategy.scope(), strategy.scope() as inner:
        compiled(functional()).fit(X, Y, verbose=0, callbacks=[callback])
        assert tf.distribute.get_strategy() is strategy is inner
    assert seen == [(False, 1)] and not tf.distribute.has_strategy()


def test_a_distributed_dataset_is_that_of_all_workers(fits):
    strategy = ParameterServerStrategy(num_ps=1, num_workers=2)
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)
    with strategy.scope():
        model = compiled(sequential())
    history = model.fit(strategy.experimental_distribute_dataset(dataset), verbose=0)
    assert [len(history.history["loss"]), len(fits)] == [1, 1]

    def shard(context):
        whole = tf.data.Dataset.range(12).shard(context.num_input_pipelines, context.input_pipeline_id)
        return whole.batch(context.get_per_replica_batch_size(12))

    for distribute in (
        strategy.distribute_datasets_from_function,
        strategy.experimental_distribute_datasets_from_function,
    ):
        assert [batch.numpy().tolist() for batch in distribute(shard)] == [[*range(12)]]
