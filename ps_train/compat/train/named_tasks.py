"""The tasks on which a graph places work by their names, as with `tf.device("/job:worker/task:1")`.

    named_tasks(graph, "/job:worker/task:0")        # ["/job:worker/task:1"]

A session has to see these tasks, besides all ps and its own.  A job without an index, `/job:worker`, is the own task if
that is one of the job.
"""

from __future__ import annotations

import tensorflow as tf


def named_tasks(graph: tf.Graph, own: str) -> list[str]:
    """Returns the devices, without their types, of tasks that are neither a ps nor the own one; sorted.

    Args:
      graph: its operations name their devices.
      own: the device of the process's own task.
    """
    any_own = tf.DeviceSpec(job=tf.DeviceSpec.from_string(own).job).to_string()
    specs = {tf.DeviceSpec.from_string(device) for device in {op.device for op in graph.get_operations()} if device}
    tasks = {tf.DeviceSpec(job=spec.job, task=spec.task).to_string() for spec in specs if spec.job not in (None, "ps")}
    return sorted(tasks - {own, any_own})
