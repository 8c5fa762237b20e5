"""The cluster of a RunConfig: this task's place in it, and values of TF_CONFIG that are refused."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

from ps_train.compat.estimator.spec.run_config import RunConfig

CLUSTER = {"chief": ["a:1"], "ps": ["b:1", "b:2"], "worker": ["c:1", "c:2", "c:3"]}


@pytest.fixture(autouse=True)
def without_tf_config(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)


@pytest.fixture
def config_in(monkeypatch):
    """Returns a function: TF_CONFIG to the RunConfig under it."""

    def make(tf_config, **values):
        monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
        return RunConfig(**values)

    return make


@pytest.mark.parametrize("tf_config", ["", "{}", '{"cluster": {}}'])
def test_point_1_no_tf_config_is_worker_0_alone(monkeypatch, tf_config):
    monkeypatch.setenv("TF_CONFIG", tf_config)
    config = RunConfig()
    assert (config.task_type, config.task_id, config.is_chief, config.master) == ("worker", 0, True, "")
    assert config.cluster_spec.as_dict() == {} and not config.cluster_spec
    assert (config.num_worker_replicas, config.num_ps_replicas, config.global_id_in_cluster) == (1, 0, 0)
    assert (config.evaluation_master, config.service) == ("", None)


def test_point_2_without_a_cluster_the_task_is_worker_0(config_in):
    config = config_in({"task": {"type": "worker", "index": 0}})
    assert (config.task_type, config.task_id, config.is_chief, config.num_worker_replicas) == ("worker", 0, True, 1)
    assert config_in({"session_master": "grpc://x:1", "eval_session_master": "e"}).master == "grpc://x:1"


@pytest.mark.parametrize("task", [("worker", 1), ("chief", 0), ("ps", 0), ("evaluator", 0)])
def test_point_2_without_a_cluster_another_task_is_refused(config_in, task):
    with pytest.raises(ValueError, match=f"task {task[0]}:{task[1]} needs a cluster"):
        config_in({"task": {"type": task[0], "index": task[1]}})


def test_further_jobs_stand_between_the_chief_and_the_ps_and_do_not_train(config_in):
    cluster = {**CLUSTER, "data_server": ["d:1", "d:2"], "zoo": ["z:1"]}
    ids = {
        f"{name}:{index}": config_in({"cluster": cluster, "task": {"type": name, "index": index}}).global_id_in_cluster
        for name, hosts in cluster.items()
        for index in range(len(hosts))
    }
    order = ["chief:0", "data_server:0", "data_server:1", "worker:0", "worker:1", "worker:2", "zoo:0", "ps:0", "ps:1"]
    assert sorted(ids, key=ids.get) == order
    config = config_in({"cluster": cluster, "task": {"type": "data_server", "index": 1}})
    assert (config.num_worker_replicas, config.num_ps_replicas, config.is_chief) == (4, 2, False)
    assert config.session_config is None


@pytest.mark.parametrize(
    ("task", "index", "is_chief", "master"),
    [("chief", 0, True, "a:1"), ("worker", 0, False, "c:1"), ("worker", 2, False, "c:3"), ("ps", 1, False, "b:2")],
)
def test_point_3_and_4_a_task_of_a_cluster_knows_its_place(config_in, task, index, is_chief, master):
    config = config_in({"cluster": CLUSTER, "task": {"type": task, "index": index}})
    assert (config.task_type, config.task_id, config.is_chief) == (task, index, is_chief)
    assert (config.num_worker_replicas, config.num_ps_replicas) == (4, 2)
    assert config.cluster_spec == tf.train.ClusterSpec(CLUSTER)
    assert config.master == f"grpc://{master}"


def test_point_4_a_cluster_of_one_task_needs_no_server(config_in):
    config = config_in({"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}})
    assert (config.master, config.is_chief, config.num_worker_replicas) == ("", True, 1)


def test_point_4_the_session_master_of_tf_config_wins(config_in):
    config = config_in({"cluster": CLUSTER, "task": {"type": "worker", "index": 1}, "session_master": "grpc://x:9"})
    assert config.master == "grpc://x:9"


@pytest.mark.parametrize("task", [("master", 0, 0, True), ("worker", 1, 2, False), ("ps", 0, 4, False)])
def test_point_5_master_is_the_older_word_for_chief(config_in, task):
    name, index, global_id, is_chief = task
    cluster = {"master": ["a:1"], "ps": CLUSTER["ps"], "worker": CLUSTER["worker"]}
    config = config_in({"cluster": cluster, "task": {"type": name, "index": index}})
    assert (config.task_type, config.is_chief, config.global_id_in_cluster) == (name, is_chief, global_id)
    assert (config.num_worker_replicas, config.num_ps_replicas) == (4, 2)


def test_point_5_chief_and_master_together_are_refused(config_in):
    with pytest.raises(ValueError, match="both chief and master"):
        config_in({"cluster": {**CLUSTER, "master": ["d:1"]}, "task": {"type": "worker", "index": 0}})


@pytest.mark.parametrize("name", ["chief", "master"])
def test_point_6_there_is_one_chief(config_in, name):
    with pytest.raises(ValueError, match=f"2 tasks of {name}"):
        config_in({"cluster": {name: ["a:1", "a:2"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}})


@pytest.mark.parametrize(("index", "is_chief"), [(0, True), (1, False)])
def test_point_6_without_a_chief_worker_0_is_the_chief(config_in, index, is_chief):
    cluster = {"ps": ["b:1"], "worker": ["c:1", "c:2"]}
    config = config_in({"cluster": cluster, "task": {"type": "worker", "index": index}})
    assert (config.is_chief, config.global_id_in_cluster, config.num_worker_replicas) == (is_chief, index, 2)


@pytest.mark.parametrize("cluster", [{"ps": ["b:1"]}, {"ps": ["b:1"], "worker": {"1": "c:2"}}])
def test_point_6_a_cluster_without_any_chief_is_refused(config_in, cluster):
    with pytest.raises(ValueError, match="no chief and no worker 0"):
        config_in({"cluster": cluster, "task": {"type": "ps", "index": 0}})


@pytest.mark.parametrize(
    ("task", "problem"),
    [
        ({}, "task has no type"),
        ({"index": 0}, "task type is None"),
        ({"type": "worker"}, "task has no index"),
        ({"type": "worker", "index": -1}, "task index is -1"),
        ({"type": "worker", "index": 3}, "worker:3 is not in the cluster"),
        ({"type": "worker", "index": "x"}, "task index is 'x'"),
        ({"type": "local", "index": 0}, "task type is 'local'"),
        ({"type": "master", "index": 0}, "master:0 is not in the cluster"),
    ],
)
def test_point_7_a_task_that_is_not_in_the_cluster_is_refused(config_in, task, problem):
    with pytest.raises(ValueError, match=problem):
        config_in({"cluster": CLUSTER, "task": task})


@pytest.mark.parametrize(("text", "problem"), [("{cluster", "TF_CONFIG is not JSON"), ("[" * 100_000, "nested too")])
def test_point_7_a_text_that_is_not_json_is_refused(monkeypatch, text, problem):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=problem):
        RunConfig()


def test_point_8_an_index_may_be_a_text(config_in):
    config = config_in({"cluster": CLUSTER, "task": {"type": "worker", "index": "1"}})
    assert (config.task_id, config.master) == (1, "grpc://c:2")


@pytest.mark.parametrize("index", [0, 7])
def test_point_9_an_evaluator_is_outside_the_cluster(config_in, index):
    task = {"type": "evaluator", "index": index}
    config = config_in({"cluster": CLUSTER, "task": task, "eval_session_master": "grpc://e:1"})
    assert (config.task_type, config.task_id, config.is_chief) == ("evaluator", index, False)
    assert config.cluster_spec.as_dict() == {} and config.master == ""
    assert (config.num_worker_replicas, config.num_ps_replicas, config.global_id_in_cluster) == (0, 0, None)
    assert config.evaluation_master == "grpc://e:1"
    assert config.session_config is None


def test_point_10_a_cluster_with_a_master_has_no_evaluator(config_in):
    with pytest.raises(ValueError, match="a master evaluates itself"):
        config_in({"cluster": {"master": ["a:1"], "ps": ["b:1"]}, "task": {"type": "evaluator", "index": 0}})


@pytest.mark.parametrize(("task", "index", "expected"), [("chief", 0, 0), ("worker", 1, 2), ("ps", 0, 4), ("ps", 1, 5)])
def test_point_11_global_ids_count_chief_workers_ps(config_in, task, index, expected):
    assert config_in({"cluster": CLUSTER, "task": {"type": task, "index": index}}).global_id_in_cluster == expected


def test_a_cluster_that_names_its_evaluator_counts_only_the_others(config_in):
    cluster = {**CLUSTER, "evaluator": ["e:1"]}
    config = config_in({"cluster": cluster, "task": {"type": "ps", "index": 0}})
    assert config.cluster_spec == tf.train.ClusterSpec(CLUSTER) and config.global_id_in_cluster == 4


def test_a_worker_that_knows_only_itself_and_the_ps_has_a_place(config_in):
    sparse = {"chief": ["a:1"], "ps": ["b:1"], "worker": {"3": "c:3"}}
    config = config_in({"sparseCluster": sparse, "task": {"type": "worker", "index": 3}})
    assert (config.task_id, config.master, config.num_ps_replicas) == (3, "grpc://c:3", 1)


def test_point_12_service_is_a_dict(config_in):
    assert config_in({"service": {"key": "value"}}).service == {"key": "value"}
    with pytest.raises(TypeError, match="service is"):
        config_in({"service": [1]})
