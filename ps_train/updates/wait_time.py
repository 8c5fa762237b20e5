"""How long steps wait for other replicas: measured on ps 0, by its own clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.placement.variables import ps_device
from ps_train.updates.base import RunCounters


def now_on_ps(after: list[tf.Operation]) -> tf.Tensor:
    """Seconds, float64 scalar, on ps 0."""
    with tf.device(ps_device(0)), tf.control_dependencies(after):
        return tf.timestamp()


def record(counts: RunCounters, index: int, began: tf.Tensor, pushed: tf.Tensor, passed: tf.Tensor) -> tf.Operation:
    """Adds one step of a replica to what is counted: when it began, when its push was there, when it might go on."""
    with tf.device(ps_device(0)):
        spent = [[passed - pushed, passed - began]]
        return counts.waiting.scatter_nd_add([[index]], spent).op


def report(waiting: np.ndarray[Any, Any], names: list[str]) -> dict[str, Any]:
    """Of the time of all steps, and of each replica's, the share spent waiting; 0 where no step was made."""
    waited, total = waiting.T

    def share(part: float, whole: float) -> float:
        return round(float(part / whole), 4) if whole > 0 else 0.0

    each = {name: share(part, whole) for name, part, whole in zip(names, waited, total, strict=True)}
    return {"share": share(waited.sum(), total.sum()), "per_worker": each}
