"""The model of the pairwise design: a small network with a table, on examples that the oracle knows.

With `linear` every gradient depends on the examples alone, so it is the same for stale values.
"""

from __future__ import annotations

import pathlib
import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

import ps_train
from ps_train import embeddings
from tests.trials.pairwise.factors import ADMIT_AFTER, EXPIRE_STEPS

WIDTH, HIDDEN, DIMENSION, IDS = 4, 5, 4, 12
ROW = 0.3
"""Initial value of all elements of an open vocabulary."""

GIVEN_ROWS = np.linspace(0.0, 0.6, IDS * DIMENSION, dtype=np.float32).reshape(IDS, DIMENSION)
"""The rows with which the table of a fixed size begins."""

FACTORS_OF_HIDDEN = np.linspace(0.2, 0.6, HIDDEN, dtype=np.float32)
FACTORS_OF_ROWS = np.linspace(-0.4, 0.5, DIMENSION, dtype=np.float32)
LOSS = 0.1
"""The factor of the loss: with it float16 does not overflow, which would leave out gradients."""
COUNTED = 0.125
"""The gradient of each element of `count`, which all codecs and dtypes have exactly."""

_HOLD_SECS = 300.0
_TABLES: dict[str, dict[str, Any]] = {
    "rows": {"rows": IDS, "initializer": v1.constant_initializer(GIVEN_ROWS)},
    "open": {"capacity": 64},
    "admit": {"capacity": 64, "admit_after": ADMIT_AFTER},
    "expire": {"capacity": 64, "expire_steps": EXPIRE_STEPS},
}


def initial_values() -> dict[str, np.ndarray]:
    """Returns variable name to initial value, without the table."""
    chance = np.random.default_rng(7)
    shapes = {"w1": (WIDTH, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, 1), "b2": (1,), "we": (DIMENSION, 1)}
    values = {name: chance.normal(size=shape, scale=0.4).astype(np.float32) for name, shape in shapes.items()}
    return {**values, "count": np.ones(3, np.float32)}


def make_examples(count: int, equal: bool, nan: int = -1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns x [count, WIDTH], ids [count] and labels [count]; the label of the example `nan` is not a number."""
    chance = np.random.default_rng(3)
    x = chance.normal(size=(count, WIDTH), scale=0.7).astype(np.float32)
    ids = chance.integers(0, IDS, size=count)
    labels = (x[:, 0] - 0.5 * x[:, 1] + 0.2 * ids / IDS + 0.3).astype(np.float32)
    if equal:
        x[:], ids[:], labels[:] = x[0], ids[0], labels[0]
    if nan >= 0:
        labels[nan] = np.nan
    return x, ids, labels


class Net(ps_train.Model):
    """See the module.

    Args:
      examples: number of training examples.
      equal: whether all examples are equal.
      table: the kind of table, or "none".
      linear: whether the loss is linear in each variable.
      nan: index of the example whose label is not a number.
      gate: directory of the files by which the chief is held; "" for never.
      holds: the steps from which on the chief is held, as in "5+10".
    """

    def __init__(
        self,
        examples: int = 16,
        equal: bool = False,
        table: str = "none",
        linear: bool = False,
        nan: int = -1,
        gate: str = "",
        holds: str = "",
    ) -> None:
        self.examples, self.equal, self.table, self.linear, self.nan = examples, equal, table, linear, nan
        self.gate, self.holds = gate, [int(step) for step in holds.split("+") if step]

    def data(self, split, data_dir):
        x, ids, labels = make_examples(self.examples, self.equal, self.nan if split == "train" else -1)
        return ps_train.Arrays({"x": x, "id": ids}, labels)

    def forward(self, features, training):
        found = {
            name: v1.get_variable(name, initializer=value)
            for name, value in initial_values().items()
            if name != "we" or self.table != "none"
        }
        dtype = found["w1"].dtype
        hidden = tf.cast(features["x"], dtype) @ found["w1"] + found["b1"]
        if self.linear:
            out = hidden @ tf.cast(FACTORS_OF_HIDDEN[:, np.newaxis], dtype) + tf.reduce_sum(found["w2"]) + found["b2"]
        else:
            out = tf.nn.tanh(hidden) @ found["w2"] + found["b2"]
        if self.table != "none":
            declared = {"initializer": ROW, **_TABLES[self.table]}
            rows = embeddings.lookup("emb", features["id"], dimension=DIMENSION, **declared)
            if self.linear:
                out += rows @ tf.cast(FACTORS_OF_ROWS[:, np.newaxis], dtype) + tf.reduce_sum(found["we"])
            else:
                out += rows @ found["we"]
        return {"out": tf.squeeze(out, 1), "count": tf.reduce_sum(found["count"])}

    def loss(self, outputs, labels):
        counted = COUNTED * outputs["count"]
        if self.linear:
            return LOSS * tf.reduce_mean(outputs["out"] * labels) + counted
        return LOSS * tf.reduce_mean(tf.square(outputs["out"] - labels)) + counted

    def metrics(self, outputs, labels):
        """One metric gets no better, so that two evaluations are enough for --early_stop=same:1."""
        return {
            "same": v1.metrics.mean(tf.ones_like(labels)),
            "squares": v1.metrics.mean(tf.square(outputs["out"] - labels)),
        }

    def predictions(self, outputs):
        return {"out": outputs["out"]}

    def hooks(self):
        return [Gate(pathlib.Path(self.gate), self.holds)] if self.gate and "--task_index=0" in sys.argv else []


class Gate(v1.train.SessionRunHook):
    """Holds the chief between two steps until it is let through; so it is known how far the run is.

    Gate number i writes the global step into `held-i`, and opens when there is a file `open-i`.

    Args:
      directory: of the files.
      steps: the global step from which on each gate is closed.
    """

    def __init__(self, directory: pathlib.Path, steps: list[int]) -> None:
        self._directory, self._steps = directory, dict(enumerate(steps))

    def begin(self):
        self._global_step = v1.train.get_global_step()

    def after_run(self, run_context, run_values):
        step = int(run_context.session.run(self._global_step))
        for number in [number for number, first in self._steps.items() if step >= first][:1]:
            del self._steps[number]
            opened = self._directory / f"open-{number}"
            if not opened.exists():
                written = self._directory / f"held-{number}.new"
                written.write_text(str(step))
                written.rename(self._directory / f"held-{number}")
            deadline = time.monotonic() + _HOLD_SECS
            while not opened.exists() and time.monotonic() < deadline:
                time.sleep(0.02)
