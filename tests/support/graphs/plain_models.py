"""A shipped model in a plain session: its outputs and variables, for comparison with numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.modeling.tables.row_order import positions_of


class PlainModel:
    """The model's graph for fixed features, with random variables."""

    def __init__(self, model: Any, features: Any, training: bool = True) -> None:
        with tf.Graph().as_default() as graph:
            self.outputs = model.forward(tf.nest.map_structure(tf.constant, features), training)
            variables = v1.global_variables()
            random = np.random.default_rng(3)
            values = [random.normal(0, 0.5, one.shape).astype(one.dtype.as_numpy_dtype) for one in variables]
            self.session = v1.Session(graph=graph)
            self.session.run([one.assign(value) for one, value in zip(variables, values, strict=True)])
        self.variables = {one.op.name: value for one, value in zip(variables, values, strict=True)}
        self.graph = graph

    def run(self, make: Any = lambda outputs: outputs) -> Any:
        """Returns the value of a function of the outputs; variables that it makes begin with their initial values."""
        with self.graph.as_default():
            made = make(self.outputs)
            new = [one for one in v1.global_variables() if one.op.name not in self.variables]
            self.session.run(v1.variables_initializer(new))
            return self.session.run(made)

    def metrics(self, model: Any, labels: Any) -> dict[str, float]:
        """Returns the metrics of the outputs."""
        with self.graph.as_default():
            pairs = model.metrics(self.outputs, tf.nest.map_structure(tf.constant, labels))
            self.session.run(v1.local_variables_initializer())
            self.session.run({name: update for name, (_, update) in pairs.items()})
            return self.session.run({name: value for name, (value, _) in pairs.items()})

    def rows(self, name: str, ids: Any) -> np.ndarray:
        """Returns the rows of a table."""
        table = self.variables[name]
        return table[positions_of(np.asarray(ids, np.int64), len(table))]

    def dense(self, inputs: np.ndarray, name: str) -> np.ndarray:
        return inputs @ self.variables[f"{name}/weights"] + self.variables[f"{name}/bias"]

    def perceptron(self, inputs: np.ndarray, layers: int, scope: str = "") -> np.ndarray:
        for number in range(1, layers + 1):
            inputs = np.maximum(self.dense(inputs, f"{scope}hidden{number}"), 0)
        return self.dense(inputs, f"{scope}logits")


def sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-logits))


def cross_entropy(labels: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """Of clicks, [batch]."""
    return np.logaddexp(0, logits) - labels * logits


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)
