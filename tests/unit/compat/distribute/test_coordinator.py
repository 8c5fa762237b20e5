"""A ClusterCoordinator of one process makes the calls itself."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.errors import ConfigError
from ps_train.compat.distribute.coordinator import ClusterCoordinator
from ps_train.compat.distribute.strategy import ParameterServerStrategy

X = np.random.RandomState(0).rand(32, 8).astype("f")
Y = X.sum(1, keepdims=True)


def test_scheduled_steps_train(caplog):
    strategy = ParameterServerStrategy(num_workers=2)
    coordinator = ClusterCoordinator(strategy)
    assert "in this process" in caplog.text
    with strategy.scope():
        model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        optimizer = keras.optimizers.SGD(0.1)

    def dataset(context):
        return tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(context.get_per_replica_batch_size(32))

    batches = iter(coordinator.create_per_worker_dataset(lambda: strategy.distribute_datasets_from_function(dataset)))

    @tf.function
    def step(iterator):
        def one(batch):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(batch[0]) - batch[1]))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        losses = strategy.run(one, args=(next(iterator),))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    results = [coordinator.schedule(step, args=(batches,)) for _ in range(5)]
    coordinator.join()
    losses = coordinator.fetch(results)
    assert coordinator.done() and results[-1].fetch() == losses[-1] == results[-1].get().numpy()
    weights, bias, right = np.zeros((8, 1)), 0.0, []
    for _ in range(5):
        error = X @ weights + bias - Y
        right.append((error**2).mean())
        weights, bias = weights - 0.1 * 2 * X.T @ error / 32, bias - 0.1 * 2 * error.mean()
    np.testing.assert_allclose(losses, right, rtol=1e-4)


def test_several_tasks_are_refused(monkeypatch):
    strategy = ParameterServerStrategy()
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}}')
    with pytest.raises(ConfigError, match=r"ClusterCoordinator.schedule .* model.fit, or run the program as one"):
        ClusterCoordinator(strategy)
