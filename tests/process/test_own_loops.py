"""Loops of a program's own run in each worker of a cluster, and train one model."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytestmark = [pytest.mark.timeout(400), pytest.mark.long]

PROGRAM = """
import os, sys
import keras, numpy as np, tensorflow as tf

update, epochs, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if update == "alone":
    strategy, me = tf.distribute.get_strategy(), 0
elif update == "mirrored":
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    me = strategy.cluster_resolver.task_id
else:
    import ps_train.keras

    strategy = ps_train.keras.ParameterServerStrategy(update=update)
    me = strategy.cluster_resolver.task_id
random = np.random.RandomState(0)
x, y = random.randn(72, 5).astype("f"), random.randint(0, 3, 72)
keras.utils.set_random_seed(me)        # all begin with the values of worker 0
with strategy.scope():
    layers = [keras.Input((5,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(3)]
    model, optimizer = keras.Sequential(layers), keras.optimizers.Adam(0.02)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)


def step(batch):
    x, y = batch
    with tf.GradientTape() as tape:
        loss = tf.nn.compute_average_loss(loss_of(y, model(x, training=True)), global_batch_size=16)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

@tf.function
def distributed(batch):
    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=(batch,)), axis=None)

steps = 0
for _ in range(epochs):
    for batch in strategy.experimental_distribute_dataset(data):
        loss, steps = float(distributed(batch)), steps + 1
        if "--fail" in sys.argv and me == 1 and steps == 3:
            raise RuntimeError("no more of this")
print("made", steps, "of", int(optimizer.iterations), flush=True)
np.savez(f"{out}/{update}-{me}.npz", *model.get_weights())
"""


@pytest.fixture
def run(processes):
    """Runs the program as all tasks of a cluster, or alone; returns its process when it has ended."""
    path = processes.directory / "program.py"
    path.write_text(PROGRAM)

    def call(*arguments, cluster=("--num_ps=1", "--num_workers=2")):
        launcher = [sys.executable, "-m", "ps_train", "run", *cluster]
        done = processes.command([*(launcher if cluster else [sys.executable]), str(path), *arguments])
        done.code = done.wait(200)
        return done

    return call


def weights(path):
    with np.load(path) as found:
        return [found[name] for name in found.files]


def test_two_workers_equal_one_process_on_the_whole_batches(run, tmp_path):
    assert run("alone", "3", str(tmp_path), cluster=()).code == 0
    for update, cluster in {"sync": ("--num_ps=2", "--num_workers=2"), "mirrored": ("--num_ps=0",)}.items():
        done = run(update, "3", str(tmp_path), cluster=cluster)
        assert done.code == 0, done.output
        assert {f"[worker:{index}] made 15 of 15" for index in (0, 1)} <= {*done.lines}
        for index in (0, 1):
            for one, other in zip(
                weights(tmp_path / f"{update}-{index}.npz"), weights(tmp_path / "alone-0.npz"), strict=True
            ):
                np.testing.assert_allclose(one, other, atol=1e-6)


def test_workers_that_do_not_wait_train_too(run, tmp_path):
    done = run("async", "4", str(tmp_path))
    assert done.code == 0, done.output
    assert "[worker:0] made 12 of 12" in done.lines and "[worker:1] made 8 of 8" in done.lines
    assert not done.descendants()


def test_an_exception_in_one_worker_ends_the_job(run, tmp_path):
    done = run("sync", "1000", str(tmp_path), "--fail")
    assert done.code == 1, done.output
    assert "worker:1" in done.lines[-1] and "RuntimeError: no more of this" in done.lines[-1]
    assert not done.descendants()
