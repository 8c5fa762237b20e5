"""The cluster of a script as its server knows it, and the filters of sessions."""

from __future__ import annotations

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import UnreachableError
from ps_train.cluster.membership.connect import NotReadyError
from ps_train.cluster.membership.presence import AbsenceLimits, ScriptPresence
from ps_train.compat.train import server as module
from ps_train.compat.train.server import ScriptCluster, ScriptTask, Server, current_task, num_workers, session_config


@pytest.mark.parametrize(
    ("hosts", "workers"),
    [
        ({"ps": ["a:1"], "worker": ["b:1", "c:1"]}, ["worker:0", "worker:1"]),
        ({"ps": ["a:1"], "worker": ["b:1"], "chief": ["c:1"]}, ["chief:0", "worker:0"]),
        ({"ps": ["a:1"], "worker": ["b:1"], "master": ["c:1"], "evaluator": ["d:1"]}, ["master:0", "worker:0"]),
    ],
)
def test_the_chief_is_the_first_of_the_workers(hosts, workers):
    cluster = ScriptCluster({job: dict(enumerate(found)) for job, found in hosts.items()}, "worker", 0)
    assert cluster.workers() == workers
    assert [str(address) for address in cluster.ps] == ["a:1"]


def test_without_a_server_there_is_one_worker_and_no_filter():
    assert current_task() is None and num_workers() == 1
    config = v1.ConfigProto()
    assert session_config("grpc://a:1", config, tf.Graph()) is config and session_config("", None, tf.Graph()) is None


def test_a_session_of_a_task_sees_the_ps_and_itself(monkeypatch):
    waited = []

    class Stand:
        target = "grpc://localhost:9"
        cluster = ScriptCluster({"ps": {0: "a:1"}, "worker": {0: "b:1", 1: "localhost:9", 2: "c:1"}}, "worker", 1)
        wait_for = waited.append

        class presence:
            has_left, wait_for_ps = False, waited.append

        class limits:
            startup_secs = 600.0

    monkeypatch.setattr(module, "_begun", [Stand()])
    assert num_workers() == 3
    graph = tf.Graph()
    with graph.as_default():
        for device in ("", "/job:ps/task:0", "/job:worker/task:1/device:CPU:0"):
            with tf.device(device):
                tf.constant(1)
    found = session_config("grpc://localhost:9", v1.ConfigProto(allow_soft_placement=True), graph)
    assert list(found.device_filters) == ["/job:ps", "/job:worker/task:1"] and found.allow_soft_placement
    own = v1.ConfigProto(device_filters=["/job:ps"])
    assert session_config("grpc://localhost:9", own, graph) is own
    assert waited == [600.0, [], 600.0]
    assert session_config("grpc://elsewhere:9", None, graph) is None and len(waited) == 3
    with graph.as_default(), tf.device("/job:worker/task:2/device:CPU:0"):
        tf.constant(1)
    filters = session_config("grpc://localhost:9", None, graph).device_filters
    assert list(filters) == ["/job:ps", "/job:worker/task:1", "/job:worker/task:2"]
    assert waited[-1] == ["/job:worker/task:2"]


def test_a_task_that_has_ended_is_not_waited_for(monkeypatch):
    def refuse(address):
        raise NotReadyError("connection refused")

    hosts = {"ps": {}, "worker": {0: "a:1"}, "master": {0: "b:1"}}
    monkeypatch.setattr(module, "check_reachable", refuse)
    monkeypatch.setattr(ScriptPresence, "has_ended", lambda presence, task: task == "worker:0")
    task = ScriptTask("grpc://b:1", ScriptCluster(hosts, "master", 0), AbsenceLimits(startup_secs=600))
    task.presence.leave()
    with pytest.raises(UnreachableError, match=r"worker:0 \(a:1\), on which the graph places work, has ended"):
        task.wait_for(["/job:worker"])


def test_the_tasks_of_a_device_have_names_and_addresses():
    cluster = ScriptCluster({"ps": {0: "a:1"}, "worker": {0: "b:1", 1: "c:1"}}, "ps", 0)
    assert [(name, str(address)) for name, address in cluster.members("/job:worker")] == [
        ("worker:0", "b:1"),
        ("worker:1", "c:1"),
    ]
    assert [name for name, _ in cluster.members("/job:worker/task:1")] == ["worker:1"]
    assert cluster.members("/job:master/task:0") == []


def test_a_busy_port_is_named(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    first = v1.train.Server.create_local_server()
    host = first.target.removeprefix("grpc://")
    with pytest.raises(tf.errors.UnknownError, match=r"Could not start gRPC server") as busy:
        Server({"local": [host]}, job_name="local", task_index=0)
    assert f"serve on {host} (held by pid" in str(busy.value) and "use another port" in str(busy.value)


def test_two_tasks_on_one_port_are_named(monkeypatch):
    first = v1.train.Server.create_local_server()
    host = first.target.removeprefix("grpc://")
    monkeypatch.setenv("TF_CONFIG", '{"cluster": {}, "task": {"type": "worker", "index": 1}}')
    both = "the address of worker:0, and by TF_CONFIG this process is worker:1: two processes serve as worker:0"
    with pytest.raises(tf.errors.UnknownError, match=both):
        Server(v1.train.ClusterSpec({"worker": [host, "localhost:1"]}), "worker", 0)
    one_address = "the address of ps:0 and of worker:1: give each task an address of its own."
    with pytest.raises(tf.errors.UnknownError, match=one_address):
        Server({"ps": {0: host}, "worker": ["localhost:1", host]}, "worker", 1)
