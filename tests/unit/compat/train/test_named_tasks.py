"""The tasks that a graph names."""

from __future__ import annotations

import tensorflow as tf

from ps_train.compat.train.named_tasks import named_tasks


def test_a_device_without_an_index_is_the_own_task_of_that_job():
    with tf.Graph().as_default() as graph, tf.device("/job:worker/device:CPU:0"):
        tf.constant(1)
    assert named_tasks(graph, "/job:worker/task:1") == []
    assert named_tasks(graph, "/job:master/task:0") == ["/job:worker"]


def test_tasks_are_named_once_and_sorted_without_ps_and_without_the_own_one():
    devices = [
        "/job:worker/task:2/device:CPU:0",
        "/job:worker/task:2",
        "/job:ps/task:1",
        "/job:worker/task:0",
        "",
        "/cpu:0",
    ]
    with tf.Graph().as_default() as graph:
        for device in [*devices, "/job:evaluator/task:0", "/job:worker/task:1"]:
            with tf.device(device):
                tf.constant(1)
    assert named_tasks(graph, "/job:worker/task:0") == [
        "/job:evaluator/task:0",
        "/job:worker/task:1",
        "/job:worker/task:2",
    ]
