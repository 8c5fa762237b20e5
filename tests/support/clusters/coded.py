"""Clusters whose pulls and pushes are encoded."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.data.arrays import Arrays
from ps_train.engine.step.parts.push_codec import PushCodec
from ps_train.modeling.model import Model
from tests.support.clusters.cluster import InProcessCluster

WIDTH = 900


class Fixed(Model):
    """Its gradients do not depend on its values: the mean of the batch, for each of two variables."""

    default_learning_rate = 0.5

    def data(self, split, data_dir):
        x = np.random.default_rng(5).normal(size=(64, WIDTH)).astype(np.float32)
        return Arrays(x, np.zeros(64, np.float32))

    def forward(self, features, training):
        first = v1.get_variable("first", [WIDTH], initializer=v1.ones_initializer())
        second = v1.get_variable("second", [WIDTH], initializer=v1.ones_initializer())
        return tf.reduce_sum(features * (first + 0.01 * tf.reverse(second, [0])), 1)

    def loss(self, outputs, labels):
        return tf.reduce_mean(outputs - labels)


def cluster_of(model: Model, workers: int = 1, num_ps: int = 2, run: int = 1, **fields: Any) -> InProcessCluster:
    fields = {"optimizer": "sgd", "batch_size": 8, "steps_per_run": str(run), **fields}
    cluster = InProcessCluster(model, num_ps, workers, partition_bytes=256, **fields)
    cluster.start()
    return cluster


def values_of(cluster: InProcessCluster) -> dict[str, np.ndarray[Any, Any]]:
    """The trained values by their keys in a checkpoint; slices under the same key one after the other."""
    found = {}
    for entry in cluster.steps[0].ps.entries:
        if not entry.key.startswith(("ps_train/", "global_step")):
            found.setdefault(entry.key, []).append(cluster.sessions[0].run(entry.variable))
    return {key: np.concatenate([np.atleast_1d(part) for part in parts]) for key, parts in found.items()}


def finish(cluster: InProcessCluster) -> bool:
    """Applies what the pushes have left out, as at the end of a training; returns whether there was anything."""
    for session, step in zip(cluster.sessions, cluster.steps, strict=True):
        for part in step.parts.of(PushCodec):
            part.residuals.send(session)
    (codec,) = cluster.steps[0].parts.of(PushCodec)
    found = codec.residuals.apply(cluster.sessions[0])
    assert not codec.residuals.apply(cluster.sessions[0]), "nothing is applied twice"
    return found
