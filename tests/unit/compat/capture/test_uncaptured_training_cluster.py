"""Training as a script: a cluster needs a ps, and a program without one has a session of its own process."""

from __future__ import annotations

import types
from typing import Any

import pytest
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.compat.capture import uncaptured_training
from ps_train.compat.capture.uncaptured_training import _join_cluster, _session_config
from ps_train.compat.train.server import ScriptCluster


def config_of(cluster: dict[str, list[str]], **options: Any) -> Any:
    spec = v1.train.ClusterSpec(cluster)
    return types.SimpleNamespace(cluster_spec=spec, task_type="worker", task_id=0, job=None, **options)


def test_a_cluster_without_ps_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ps_hosts is empty \(from TF_CONFIG\): name at least one ps"):
        _join_cluster(config_of({"worker": ["localhost:1"]}))


def test_a_program_without_a_cluster_has_the_sessions_that_it_asks_for() -> None:
    given = v1.ConfigProto(inter_op_parallelism_threads=3)
    assert _session_config(config_of({}, session_config=given), None) is given


def test_a_session_in_a_cluster_describes_it_and_keeps_what_the_program_asks_for() -> None:
    given = v1.ConfigProto(inter_op_parallelism_threads=3, device_filters=["/job:ps"])
    config = config_of({"worker": ["localhost:1", "localhost:2"], "ps": ["localhost:3"]}, session_config=given)
    hosts = {"ps": {0: "localhost:3"}, "worker": {0: "localhost:1", 1: "localhost:2"}}
    waited: list[Any] = []
    task: Any = types.SimpleNamespace(cluster=ScriptCluster(hosts, "worker", 0), wait_for=waited.append)
    with tf.Graph().as_default():
        found = _session_config(config, task)
        with tf.device("/job:worker/task:1"):
            tf.constant(1)
        wider = _session_config(config, task)
    workers = {job.name: dict(job.tasks) for job in wider.cluster_def.job}["worker"]
    assert workers == hosts["worker"] and waited == [[], ["/job:worker/task:1"]]
    assert {job.name: dict(job.tasks) for job in found.cluster_def.job} == {
        "ps": {0: "localhost:3"},
        "worker": {0: "localhost:1"},
    }
    assert found.inter_op_parallelism_threads == 3 and not found.device_filters


def test_a_process_joins_its_cluster_once_and_the_older_master_is_a_chief(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = []

    class Task:
        def __init__(self, target: str, cluster: ScriptCluster, limits: Any) -> None:
            joined.append((target, cluster, limits.startup_secs))

    started = types.SimpleNamespace(target="grpc://localhost:1")
    monkeypatch.setattr(uncaptured_training, "_tasks", {})
    monkeypatch.setattr(uncaptured_training, "connect_all_ps", lambda *args: [])
    monkeypatch.setattr(uncaptured_training, "start_server", lambda address, job: started)
    monkeypatch.setattr(uncaptured_training, "ScriptTask", Task)
    config = config_of({"master": ["localhost:1"], "worker": ["localhost:2"], "ps": ["localhost:3"]})
    config.task_type, config.job = "master", {"startup_timeout_secs": 7.0}
    assert _join_cluster(config) is _join_cluster(config)
    hosts = {"ps": {0: "localhost:3"}, "chief": {0: "localhost:1"}, "worker": {0: "localhost:2"}}
    assert joined == [("grpc://localhost:1", ScriptCluster(hosts, "chief", 0), 7.0)]
