"""One contender of `python -m benchmarks keras`, as a program: it trains, and prints the steps of each later epoch a
second.

    python -m benchmarks.peers.keras_fit fit mlp 300      # ps_train.keras.fit, a ps and two workers
    python -m benchmarks.peers.keras_fit model mlp 300    # the same network as a ps_train.Model
    python -m benchmarks.peers.keras_fit alone mlp 300    # Keras in one process
    TF_CONFIG=... TF_USE_LEGACY_KERAS=1 python -m benchmarks.peers.keras_fit tensorflow mlp 300
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf

import ps_train

v1 = tf.compat.v1
BATCH, EPOCHS, ROWS, DIMENSION, EXAMPLES = 32, 4, 1_000_000, 16, 6400


def data(workload: str) -> tuple[Any, Any]:
    """Returns inputs and labels."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, EXAMPLES)
    if workload == "table":
        return random.integers(0, ROWS, (EXAMPLES, 10)).astype("int32"), labels
    shape = (784,) if workload == "mlp" else (32, 32, 3)
    return random.random((EXAMPLES, *shape), "float32"), labels


def network(keras: Any, workload: str) -> Any:
    """Returns the compiled model."""
    layers = keras.layers
    if workload == "mlp":
        inner = [layers.Dense(128, "relu"), layers.Dropout(0.2)]
    elif workload == "convnet":
        inner = [
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
        ]
        inner += [layers.MaxPooling2D(), layers.Flatten(), layers.Dense(64, "relu")]
    else:
        inner = [layers.Embedding(ROWS, DIMENSION), layers.Flatten()]
    model = keras.Sequential([*inner, layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


class Net(ps_train.Model):
    """The networks of `network` as a model of ps_train."""

    default_optimizer = "adam"

    def __init__(self, workload: str) -> None:
        self.workload = workload

    def data(self, split: str, data_dir: str) -> Any:
        return ps_train.Arrays(*data(self.workload)) if split == "train" else None

    def forward(self, features: Any, training: bool) -> Any:
        if self.workload == "mlp":
            hidden = tf.nn.relu(_dense("a", features, 128))
            hidden = tf.nn.dropout(hidden, rate=0.2) if training else hidden
        else:
            hidden = features
            for name, width in (("a", 32), ("b", 64)):
                kernel = v1.get_variable(f"{name}/kernel", [3, 3, hidden.shape[-1], width])
                bias = v1.get_variable(f"{name}/bias", [width], initializer=tf.zeros_initializer())
                hidden = tf.nn.relu(tf.nn.conv2d(hidden, kernel, 1, "VALID") + bias)
                hidden = tf.nn.max_pool2d(hidden, 2, 2, "VALID")
            hidden = tf.reshape(hidden, [-1, int(np.prod(hidden.shape[1:]))])
            hidden = tf.nn.relu(_dense("c", hidden, 64))
        return _dense("out", hidden, 10)

    def loss(self, outputs: Any, labels: Any) -> Any:
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs))


def _dense(name: str, values: Any, units: int) -> Any:
    kernel = v1.get_variable(f"{name}/kernel", [values.shape[-1], units])
    return values @ kernel + v1.get_variable(f"{name}/bias", [units], initializer=tf.zeros_initializer())


def main(contender: str, workload: str, steps: int) -> None:
    """Trains, and prints the rates."""
    if contender == "model":
        result = ps_train.fit(
            Net(workload), max_steps=EPOCHS * steps, batch_size=BATCH, num_ps=1, num_workers=2, quiet=True,
            learning_rate=0.001,
        )  # fmt: skip
        rates = [rate for rate in result.history["steps_per_sec"] if rate]
        print("rates", *(round(rate, 2) for rate in rates[len(rates) // 2 :]), flush=True)
        return
    if contender == "tensorflow":
        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        if resolver.task_type in ("worker", "ps"):
            tf.distribute.Server(resolver.cluster_spec(), resolver.task_type, resolver.task_id).join()
    times: list[float] = []
    keras = tf.keras

    class Times(keras.callbacks.Callback):  # type: ignore[name-defined]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            times.append(time.perf_counter())

        on_epoch_end = on_epoch_begin

    arguments: dict[str, Any] = {"epochs": EPOCHS, "steps_per_epoch": steps, "verbose": 0, "callbacks": [Times()]}
    x, y = data(workload)
    if contender == "tensorflow":
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        with strategy.scope():
            model = network(keras, workload)
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(y)).repeat().batch(BATCH)
        model.fit(dataset, **arguments)
    elif contender == "alone":
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(y)).repeat().batch(BATCH)
        network(keras, workload).fit(dataset, **arguments)
    else:
        from ps_train.keras import fit

        fit(network(keras, workload), x, y, batch_size=BATCH, num_ps=1, num_workers=2, **arguments)
    spans = [after - before for before, after in zip(times[::2], times[1::2], strict=True)]
    print("rates", *(round(steps / span, 2) for span in spans[1:]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
