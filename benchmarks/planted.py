"""A model whose best flags are known: `a` is 0.3, `b` is 0.7, `kind` is right, and the learning rate is near 0.5.

    python -m ps_train --model=benchmarks.planted:Planted --model_arg=a=0.3 --optimizer=sgd --batch_size=16
    descend(0.5, 0.3, 0.7, "right", seed=1, steps=200, evaluate=20)     # the same training in numpy, by steps

A linear regression whose features differ in scale, so that a small learning rate does not arrive and a large one
diverges.  A constant is added to its outputs, which is larger the further `a`, `b` and `kind` are from the best ones.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train

WIDTH, EXAMPLES, BATCH = 8, 512, 16
BEST = {"model_arg.a": 0.3, "model_arg.b": 0.7, "model_arg.kind": "right"}
SPACE = [
    "learning_rate:1e-4..1:log",
    "model_arg.a:0.0..1.0",
    "model_arg.b:0.0..1.0",
    "model_arg.kind:left,right,middle",
]
_COSTS = {"left": 0.3, "right": 0.0, "middle": 0.15}
_NOISE = 0.3

Array = Any


@functools.cache
def examples(split: str) -> tuple[Array, Array]:
    """Returns features [EXAMPLES, WIDTH] and labels [EXAMPLES], float32."""
    random = np.random.default_rng({"train": 1, "test": 2}[split])
    scales = np.geomspace(1.0, 0.1, WIDTH)
    x = random.normal(size=(EXAMPLES, WIDTH)) * scales
    y = x @ (1 / scales) / np.sqrt(WIDTH) + _NOISE * random.normal(size=EXAMPLES)
    return x.astype(np.float32), y.astype(np.float32)


def added(a: float, b: float, kind: str) -> float:
    """Returns the constant that is added to the outputs."""
    return float(np.sqrt((a - 0.3) ** 2 + (b - 0.7) ** 2 + _COSTS[kind]))


class Planted(ps_train.Model):
    """The model; `mse` of the test split is the objective."""

    gives_advice = False

    def __init__(self, a: float = 0.3, b: float = 0.7, kind: str = "right") -> None:
        self._added = added(a, b, kind)

    def data(self, split: str, data_dir: str) -> ps_train.Arrays:
        return ps_train.Arrays(*examples(split))

    def forward(self, features: Any, training: bool) -> Any:
        zeros = v1.zeros_initializer()
        return tf.squeeze(features @ v1.get_variable("w", [WIDTH, 1], initializer=zeros), 1) + self._added

    def loss(self, outputs: Any, labels: Any) -> Any:
        return tf.reduce_mean(tf.square(outputs - labels))

    def metrics(self, outputs: Any, labels: Any) -> Any:
        return {"mse": v1.metrics.mean_squared_error(labels, outputs)}


def descend(
    learning_rate: float, a: float, b: float, kind: str, *, seed: int, steps: int, evaluate: int
) -> Iterator[tuple[int, float]]:
    """Yields (step, mean squared error of the test split) every `evaluate` steps of plain SGD."""
    constant = np.array([added(a, b, kind)])
    for step, values in descend_all(np.array([learning_rate]), constant, seed=seed, steps=steps, evaluate=evaluate):
        yield step, float(values[0])


def descend_all(
    learning_rates: Array, constants: Array, *, seed: int, steps: int, evaluate: int
) -> Iterator[tuple[int, Array]]:
    """Yields (step, errors [n]) of n trainings with the same batches."""
    squares, sums, targets = _batches(seed, steps)
    test_x, test_y = examples("test")
    w = np.zeros((WIDTH, len(learning_rates)))
    for step in range(1, steps + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            w = w - learning_rates * (squares[step - 1] @ w + sums[step - 1] * constants - targets[step - 1])
            if step % evaluate == 0:
                yield step, np.mean((test_x @ w + constants - test_y[:, None]) ** 2, axis=0)


@functools.cache
def _batches(seed: int, steps: int) -> tuple[Array, Array, Array]:
    """Returns the factors of each batch's gradient, `2/n X'X w + 2/n X'1 constant - 2/n X'y`."""
    x, y = (values.astype(float) for values in examples("train"))
    random = np.random.default_rng(seed)
    epochs = -(-steps * BATCH // EXAMPLES)
    order = np.concatenate([random.permutation(EXAMPLES) for _ in range(epochs)])[: steps * BATCH]
    x, y = x[order].reshape(steps, BATCH, WIDTH) * 2 / BATCH, y[order].reshape(steps, BATCH, 1)
    transposed = x.transpose(0, 2, 1)
    return transposed @ x * (BATCH / 2), x.sum(axis=1)[:, :, None], transposed @ y
