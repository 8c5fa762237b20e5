"""Specifications of training graphs, without a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config.job import Job
from ps_train.data.pipeline import DataSource
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.variables.plan import make_plan
from ps_train.engine.variables.trace import trace
from ps_train.modeling.model import Model
from tests.support.models.small import Linear

ALONE = Replica(0, 1, 1)
WORKER = "/job:worker/replica:0/task:0"


def spec_of(
    model: Model, num_ps: int = 2, replica: Replica = ALONE, partition_bytes: int = 1 << 20, **fields: Any
) -> GraphSpec:
    """The specification of a replica's graph, for a job of these fields."""
    job = Job(**{"shuffle_buffer": 0, "steps_per_run": "1", "batch_size": 4, **fields})
    source = DataSource(lambda: model.data("train", ""))
    traced = trace(model, source, job.min_batch_size, job.seed)
    plan = make_plan(traced.specs(), num_ps, partition_bytes)
    return GraphSpec(job, model, source, traced, plan, replica, WORKER)


class Averaging(Linear):
    """Counts its batches, and keeps the largest features."""

    def forward(self, features, training):
        zeros = v1.zeros_initializer()
        most = v1.get_variable("most", [self.width], initializer=zeros, trainable=False)
        count = v1.get_variable("count", [], tf.int64, zeros, trainable=False)
        if training:
            for update in (most.assign(tf.maximum(most, tf.reduce_max(features, 0))), count.assign_add(1)):
                v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
        return super().forward(features, training)


def linear_gradient(x: np.ndarray, y: np.ndarray, w: np.ndarray, b: float) -> dict[str, np.ndarray]:
    """The gradient of `Linear`'s loss, and the loss."""
    error = x @ w[:, 0] + b - y
    return {"w": (2 * x.T @ error / len(y))[:, None], "b": 2 * error.mean(), "loss": np.mean(error**2)}
