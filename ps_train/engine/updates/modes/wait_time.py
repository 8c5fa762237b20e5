"""Time that steps wait for other replicas, measured on ps 0 by its own clock."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ps_train.engine.updates.counters.run_counters import RunCounters
from ps_train.engine.variables.variables import ps_device


def now_on_ps(after: list[tf.Operation]) -> tf.Tensor:
    """Reads ps 0's time after these operations: seconds, float64 scalar."""
    with tf.device(ps_device(0)), tf.control_dependencies(after):
        return tf.timestamp()


def record(
    counters: RunCounters, index: int, started_at: tf.Tensor, pushed_at: tf.Tensor, ended_at: tf.Tensor
) -> tf.Operation:
    """Adds one step of a replica to the counters.

    Args:
      counters: the run's counters.
      index: the replica's index.
      started_at: time at which the step started; as the others float64 scalar, seconds.
      pushed_at: time at which its push had arrived.
      ended_at: time at which its waiting ended.
    """
    with tf.device(ps_device(0)):
        spent = [[ended_at - pushed_at, ended_at - started_at]]
        return counters.waiting.scatter_nd_add([[index]], spent).op


def report(waiting: np.ndarray[Any, Any], names: list[str]) -> dict[str, Any]:
    """Returns the share of time spent waiting, in all steps and in each replica's; 0 where no step was made.

    Args:
      waiting: float64 [replicas, 2], see `RunCounters.waiting`.
      names: the replicas' names.
    """
    waited, total = waiting.T

    def share(part: float, whole: float) -> float:
        return round(float(part / whole), 4) if whole > 0 else 0.0

    each = {name: share(part, whole) for name, part, whole in zip(names, waited, total, strict=True)}
    return {"share": share(waited.sum(), total.sum()), "per_worker": each}
