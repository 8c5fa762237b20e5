"""Programs of `tf.distribute` run as all tasks of a cluster, by `python -m ps_train run`.

Their `fit` is a stand-in in the tests of roles.
"""

from __future__ import annotations

import sys

import pytest

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]

STAND_IN = """
import os, sys, types
import tensorflow as tf

def stand_in(fit):
    module = types.ModuleType("ps_train.compat.keras.fit")
    module.fit = fit
    sys.modules[module.__name__] = module
"""

MULTI_WORKER = """
stand_in(lambda model, x=None, y=None, **given: print("fit", given, model.name, flush=True))
strategy = tf.distribute.MultiWorkerMirroredStrategy()
print("replicas", strategy.num_replicas_in_sync, strategy.cluster_resolver.task_id)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)], name="small")
    model.compile(tf.keras.optimizers.Adam(lr=0.1), "mse")
model.fit(1, workers=2)
"""

COORDINATOR = """
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    task = {"job_name": resolver.task_type, "task_index": resolver.task_id, "protocol": "grpc", "start": True}
    tf.distribute.Server(resolver.cluster_spec(), **task).join()

def fit(model, x=None, y=None, **given):
    from ps_train.base.console import Console
    from ps_train.cluster.addresses.from_environment import parse_flags
    from ps_train.compat.distribute import joined
    from ps_train.config import flags
    from ps_train.training.tasks import worker

    job = {"max_steps": 40, "save_steps": 0, "model_dir": "run", "update": "sync", **given}
    arguments = flags.as_arguments(job)
    joined.ask(joined.asked_directory(), arguments)
    parsed = parse_flags(arguments, os.environ)
    assert worker.run(parsed.job, flags.with_task(parsed.task), Console(sys.stdout, sys.stderr)) == 0

stand_in(fit)
partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(256, 2)
strategy = tf.distribute.experimental.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
model.fit(1)
print("the chief goes on")
"""

SERVED = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.SGD(0.05), "mse")

def dataset_fn(context):
    x = tf.random.stateless_uniform((64, 4), (1, 2))
    return tf.data.Dataset.from_tensor_slices((x, tf.reduce_sum(x, 1, keepdims=True))).repeat().batch(16)

data = tf.keras.utils.experimental.DatasetCreator(dataset_fn)
for fit in (1, 2):
    losses = model.fit(data, epochs=2, steps_per_epoch=20).history["loss"]
    print("fit", fit, losses[1] < losses[0], int(model.optimizer.iterations))
"""

MIRRORED = """
import numpy as np, tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile(tf.keras.optimizers.SGD(0.05), "mse")
x = np.random.RandomState(0).rand(64, 4).astype("f")
history = model.fit(x, x.sum(1), batch_size=16, epochs=3, validation_split=0.25, shuffle=False)
print("history", history.epoch, *(f"{name} {values}" for name, values in history.history.items()))
print("weights", model.get_weights())
"""


@pytest.fixture
def run(processes):
    """Runs a program as all tasks of a cluster; returns its process when it has ended."""

    def call(text, *arguments):
        path = processes.directory / "program.py"
        path.write_text(text if text in (SERVED, MIRRORED) else STAND_IN + text)
        done = processes.command([sys.executable, "-m", "ps_train", "run", *arguments, str(path)])
        done.code = done.wait(200)
        return done

    return call


def test_each_worker_of_a_multi_worker_program_calls_fit(run):
    done = run(MULTI_WORKER, "--num_ps=0", "--num_workers=2")
    assert done.code == 0, done.output
    for index in (0, 1):
        assert f"[worker:{index}] replicas 2 {index}" in done.lines
        assert f"[worker:{index}] fit {{'update': 'sync', 'ps_on_workers': True}} small" in done.lines


def test_every_worker_has_the_history_and_the_weights(run):
    done = run(MIRRORED, "--num_ps=0", "--num_workers=2")
    assert done.code == 0, done.output
    for word in ("history", "weights"):
        first, second = (
            [
                line.removeprefix(f"[worker:{index}] ")
                for line in done.lines
                if line.startswith(f"[worker:{index}] {word}")
            ]
            for index in (0, 1)
        )
        assert first == second and len(first) == 1, done.output
    assert "val_loss" in done.output and "[0, 1, 2]" in done.output


def test_ps_and_workers_that_join_a_server_train_what_the_chief_asks(run):
    done = run(COORDINATOR, "--num_ps=1", "--num_workers=3")
    assert done.code == 0, done.output
    assert "[chief:0] the chief goes on" in done.lines
    trained = [line for line in done.lines if line.startswith("[chief:0] trained 40 steps")]
    assert len(trained) == 1  # in rounds of three workers, which no worker alone completes
    assert not done.descendants()


def test_every_fit_of_a_chief_trains_on_workers_that_joined_a_server(run):
    done = run(SERVED, "--num_ps=1", "--num_workers=2")
    assert done.code == 0, done.output
    assert [line for line in done.lines if line.startswith("[chief:0] fit")] == [
        "[chief:0] fit 1 True 40",
        "[chief:0] fit 2 True 80",
    ]
    assert not done.descendants()


@pytest.mark.parametrize(
    ("text", "arguments", "line"),
    [
        (MULTI_WORKER, ["--compat"], "uses tf.distribute.MultiWorkerMirroredStrategy, which needs eager execution"),
        ("print(getattr(tf, 'placeholder'))\n", [], "tf.placeholder is TensorFlow 1's: run the program with"),
        ("tf.keras.Model.fit(1, x=tf.keras.estimator.no_such)\n", [], "tf.keras.estimator.no_such is not in Keras 3"),
    ],
)
def test_a_program_of_the_other_tensorflow_gets_one_line(run, text, arguments, line):
    done = run(text, *arguments)
    assert done.code != 0
    assert line in done.output
