"""Placement of variables on ps by their bytes, for the classic device function.

with tf.device(replica_device_setter(cluster=cluster)):
    weights = tf.get_variable("weights", [784, 10])        # on the ps that has the fewest bytes so far
    logits = tf.matmul(inputs, weights)                    # on this process's own task

Without `worker_device` TensorFlow places all other work of every task, also of a chief, on the first worker that the
session sees: such a chief cannot go on once that worker has ended.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.train.server import current_task

_SIGNATURE = inspect.signature(v1.train.replica_device_setter)
_ANY_WORKER = _SIGNATURE.parameters["worker_device"].default


class GreedyByBytes:
    """A `ps_strategy` that gives each variable to the ps with the fewest bytes; of equal ones to the first.

    All workers build the same graph, so they all place alike.

    Args:
      num_tasks: the number of ps.

    Attributes:
      bytes: of the variables on each ps so far.
    """

    def __init__(self, num_tasks: int) -> None:
        self.bytes = [0] * num_tasks

    def __call__(self, op: Any) -> int:
        """Returns the task index of the ps for an operation that makes a variable."""
        task = self.bytes.index(min(self.bytes))
        self.bytes[task] += bytes_of(op)
        return task


def bytes_of(op: Any) -> int:
    """Returns the bytes of the variable that an operation makes; 1 where they are unknown."""
    attributes = (op if hasattr(op, "attr") else op.node_def).attr
    if "shape" not in attributes or "dtype" not in attributes:
        return 1
    shape = tf.TensorShape(attributes["shape"].shape)
    elements = shape.num_elements()
    return max(1, math.ceil((elements or 0) * tf.as_dtype(attributes["dtype"].type).size))


@functools.wraps(v1.train.replica_device_setter)
def replica_device_setter(*arguments: Any, **options: Any) -> Callable[..., str] | None:
    """Returns a device function as `tf.compat.v1.train.replica_device_setter`, with the same arguments.

    The default `ps_strategy` balances bytes instead of counting variables.  The default `worker_device`, a worker of
    any index, is this process's own task once it has a server.
    """
    given = _SIGNATURE.bind(*arguments, **options)
    given.apply_defaults()
    values = given.arguments
    if values["ps_strategy"] is None:
        values["ps_strategy"] = GreedyByBytes(_num_ps(values))
    task = current_task()
    if task is not None and values["worker_device"] == _ANY_WORKER:
        values["worker_device"] = task.cluster.device
    return v1.train.replica_device_setter(**values)


def _num_ps(values: dict[str, Any]) -> int:
    if values["cluster"] is None:
        return max(1, values["ps_tasks"])
    job = tf.DeviceSpec.from_string(values["ps_device"]).job
    return max(1, len(v1.train.ClusterSpec(values["cluster"]).as_dict().get(job) or []))
