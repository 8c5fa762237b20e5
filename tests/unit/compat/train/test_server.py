"""The cluster of a script as its server knows it, and the filters of sessions."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as v1

from ps_train.compat.train import server as module
from ps_train.compat.train.server import ScriptCluster, Server, current_task, num_workers, session_config


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
    assert session_config("grpc://a:1", config) is config and session_config("", None) is None


def test_a_session_of_a_task_sees_the_ps_and_itself(monkeypatch):
    waited = []

    class Stand:
        target = "grpc://localhost:9"
        cluster = ScriptCluster({"ps": {0: "a:1"}, "worker": {0: "b:1", 1: "localhost:9"}}, "worker", 1)

        class presence:
            has_left, wait_for_ps = False, waited.append

        class limits:
            startup_secs = 600.0

    monkeypatch.setattr(module, "_begun", [Stand()])
    assert num_workers() == 2
    found = session_config("grpc://localhost:9", v1.ConfigProto(allow_soft_placement=True))
    assert list(found.device_filters) == ["/job:ps", "/job:worker/task:1"] and found.allow_soft_placement
    own = v1.ConfigProto(device_filters=["/job:ps"])
    assert session_config("grpc://localhost:9", own) is own
    assert waited == [600.0] * 2
    assert session_config("grpc://elsewhere:9", None) is None and len(waited) == 2


def test_a_busy_port_is_named(caplog):
    first = v1.train.Server.create_local_server()
    host = first.target.removeprefix("grpc://")
    with pytest.raises(Exception, match=r"Could not start gRPC server"):
        Server({"local": [host]}, job_name="local", task_index=0)
    assert "use another port" in caplog.text and host.rpartition(":")[2] in caplog.text
