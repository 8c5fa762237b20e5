"""Variables are placed on ps by their bytes."""

from __future__ import annotations

import types

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.train import device_setter as module
from ps_train.compat.train.device_setter import GreedyByBytes, bytes_of, replica_device_setter
from ps_train.compat.train.server import ScriptCluster

CLUSTER = {"ps": ["a:1", "b:1"], "worker": ["c:1"]}


def devices(shapes, **options):
    """The devices of variables of these shapes, in their order."""
    with tf.Graph().as_default(), v1.device(replica_device_setter(**options)):
        found = [
            v1.get_variable(f"v{number}", shape, use_resource=number % 2 == 0) for number, shape in enumerate(shapes)
        ]
        product = tf.constant(1.0) * 2.0
    return [variable.device for variable in found], product.device


def test_a_large_variable_has_a_ps_of_its_own():
    placed, other = devices([[1000, 10], [10], [10, 10], [5]], cluster=CLUSTER)
    assert placed == ["/job:ps/task:0", "/job:ps/task:1", "/job:ps/task:1", "/job:ps/task:1"]
    assert other == "/job:worker"


def test_equal_variables_alternate():
    placed, _ = devices([[3]] * 4, ps_tasks=2)
    assert placed == [f"/job:ps/task:{task}" for task in (0, 1, 0, 1)]


def test_the_strategy_of_the_user_counts():
    placed, _ = devices([[3], [4]], cluster=v1.train.ClusterSpec(CLUSTER), ps_strategy=lambda op: 1)
    assert placed == ["/job:ps/task:1"] * 2


@pytest.mark.parametrize("job_name", ["worker", "master"])
def test_the_work_of_a_task_with_a_server_is_its_own(monkeypatch, job_name):
    cluster = ScriptCluster({"ps": {0: "a:1"}, "worker": {0: "b:1", 1: "c:1"}, "master": {1: "d:1"}}, job_name, 1)
    monkeypatch.setattr(module, "current_task", lambda: types.SimpleNamespace(cluster=cluster))
    assert devices([[3]], cluster=CLUSTER)[1] == f"/job:{job_name}/task:1"
    assert devices([[3]], cluster=CLUSTER, worker_device="/job:worker")[1] == f"/job:{job_name}/task:1"
    assert devices([[3]], cluster=CLUSTER, worker_device="/job:worker/task:0")[1] == "/job:worker/task:0"


@pytest.mark.parametrize("options", [{}, {"ps_tasks": 0}, {"cluster": {"worker": ["c:1"]}}])
def test_without_ps_there_is_no_device_function(options):
    assert replica_device_setter(**options) is None


def test_the_load_is_near_the_mean_for_many_variables():
    strategy = GreedyByBytes(3)
    with tf.Graph().as_default():
        for number in range(30):
            strategy(v1.get_variable(f"v{number}", [number % 7 + 1, 10], use_resource=True).op)
    assert max(strategy.bytes) / (sum(strategy.bytes) / 3) < 1.2


def test_bytes_are_those_of_the_type():
    with tf.Graph().as_default():
        assert bytes_of(v1.get_variable("a", [3, 2], tf.float64, use_resource=True).op) == 48
        assert bytes_of(tf.no_op()) == 1
