"""TF_CONFIG in all its forms."""

from __future__ import annotations

import json

import pytest

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.cluster import Address, Cluster
from ps_train.config.job import Job, Task
from ps_train.config.tf_config import parse_tf_config, read_cluster_file


def tf_config(config):
    return parse_tf_config(json.dumps(config))


def tf_config_refusal(config):
    with pytest.raises(ConfigError) as caught:
        parse_tf_config(config if isinstance(config, str) else json.dumps(config))
    assert "TF_CONFIG" in str(caught.value)
    return str(caught.value)


class TestTfConfig:
    @pytest.mark.parametrize("text", ["", "  ", "{}", '{"environment": "cloud"}', '{"cluster": {}}'])
    def test_where_it_describes_no_cluster_it_says_nothing(self, text):
        assert parse_tf_config(text) == ({}, {})

    def test_lists_of_addresses_become_host_lists(self):
        job, task = tf_config(
            {"cluster": {"ps": ["p:1"], "worker": ["w:1", "w:2"]}, "task": {"type": "worker", "index": 1}}
        )
        assert job == {"ps_hosts": ("p:1",), "worker_hosts": ("w:1", "w:2")}
        assert task == {"job_name": "worker", "task_index": 1}

    def test_a_chief_is_understood(self):
        job, task = tf_config(
            {"cluster": {"chief": ["c:1"], "ps": ["p:1"], "worker": ["w:1"]}, "task": {"type": "chief", "index": 0}}
        )
        assert job["chief_hosts"] == ("c:1",)
        assert Cluster.of(Job(**job)).address(Task(**task)) == Address("c", 1)

    def test_a_master_is_a_chief(self):
        job, task = tf_config(
            {"cluster": {"master": ["c:1"], "ps": ["p:1"], "worker": ["w:1"]}, "task": {"type": "master", "index": 0}}
        )
        assert job["chief_hosts"] == ("c:1",)
        assert task == {"job_name": "chief", "task_index": 0}

    def test_a_chief_and_a_master_are_refused(self):
        message = tf_config_refusal({"cluster": {"chief": ["c:1"], "master": ["c:2"], "ps": ["p:1"]}})
        assert "chief" in message
        assert "master" in message

    def test_evaluators_are_no_members_of_the_cluster(self):
        job, _ = tf_config({"cluster": {"ps": ["p:1"], "worker": ["w:1"], "evaluator": ["e:1"]}})
        assert job == {"ps_hosts": ("p:1",), "worker_hosts": ("w:1",)}

    def test_an_evaluator_is_a_task(self):
        _, task = tf_config({"cluster": {"ps": ["p:1"], "worker": ["w:1"]}, "task": {"type": "evaluator", "index": 0}})
        assert task == {"job_name": "evaluator", "task_index": 0}

    def test_workers_may_be_a_map_with_gaps(self):
        job, task = tf_config(
            {"cluster": {"ps": ["p:1"], "worker": {"3": "w:3"}}, "task": {"type": "worker", "index": 3}}
        )
        cluster = Cluster.of(Job(**job, num_workers=5))
        assert cluster.address(Task(**task)) == Address("w", 3)
        assert cluster.num_workers == 5

    def test_a_sparse_cluster_is_a_cluster(self):
        job, _ = tf_config({"sparseCluster": {"ps": ["p:1"], "worker": {"0": "w:0", "10": "w:10", "9": "w:9"}}})
        assert job["worker_hosts"] == ("0=w:0", "9=w:9", "10=w:10")

    def test_ps_may_be_a_map_without_gaps(self):
        job, _ = tf_config({"cluster": {"ps": {"1": "p:1", "0": "p:9"}, "worker": ["w:1"]}})
        assert job["ps_hosts"] == ("p:9", "p:1")

    @pytest.mark.parametrize("name", ["ps", "chief"])
    def test_only_workers_may_have_gaps(self, name):
        message = tf_config_refusal({"cluster": {"worker": ["w:1"], name: {"1": "p:1"}}})
        assert name in message
        assert "gaps" in message

    def test_an_index_may_be_a_string(self):
        _, task = tf_config({"cluster": {"ps": ["p:1"], "worker": ["w:1"]}, "task": {"type": "ps", "index": "0"}})
        assert task == {"job_name": "ps", "task_index": 0}

    def test_an_index_that_is_left_out_is_0(self):
        _, task = tf_config({"cluster": {"ps": ["p:1"], "worker": ["w:1"]}, "task": {"type": "chief"}})
        assert task["task_index"] == 0

    def test_a_cluster_without_a_task_says_nothing_of_the_task(self):
        assert tf_config({"cluster": {"ps": ["p:1"], "worker": ["w:1"]}})[1] == {}

    def test_what_is_not_needed_is_ignored(self):
        config = {"cluster": {"ps": ["p:1"], "worker": ["w:1"]}, "task": {"type": "ps", "index": 0, "trial": "1"}}
        assert tf_config({**config, "environment": "cloud", "rpc_layer": "grpc", "job": {}}) == tf_config(config)

    @pytest.mark.parametrize("model_dir", ["", " "])
    def test_an_empty_model_dir_is_refused(self, model_dir):
        with pytest.raises(ConfigError, match="TF_CONFIG model_dir is empty: give it the path of a directory"):
            tf_config({"cluster": {"ps": ["p:1"]}, "model_dir": model_dir})

    @pytest.mark.parametrize("cluster", [{"ps": [], "worker": []}, {}])
    def test_a_cluster_file_without_an_address_is_refused(self, cluster, tmp_path):
        (tmp_path / "cluster.json").write_text(json.dumps(cluster))
        with pytest.raises(ConfigError, match=r"cluster.json has no address: use "):
            read_cluster_file(str(tmp_path / "cluster.json"))

    def test_lists_without_an_address_are_refused(self):
        with pytest.raises(ConfigError, match="TF_CONFIG cluster has no address: use lists such as"):
            tf_config({"cluster": {"ps": [], "worker": []}})

    def test_a_model_dir_is_understood(self):
        assert tf_config({"cluster": {"ps": ["p:1"]}, "model_dir": "gs://x"})[0]["model_dir"] == "gs://x"

    @pytest.mark.parametrize("text", ["{", "cluster", "{'cluster': {}}", '{"cluster": {},}'])
    def test_what_is_not_json_is_refused_and_shown(self, text):
        message = tf_config_refusal(text)
        assert "JSON" in message
        assert text in message

    def test_a_long_text_is_shown_in_part(self):
        assert len(tf_config_refusal("x" * 5000)) < 300

    @pytest.mark.parametrize("config", [[], "cluster", 3, {"cluster": ["a:1"]}, {"cluster": "a:1"}])
    def test_what_is_no_object_is_refused(self, config):
        assert "object" in tf_config_refusal(config if not isinstance(config, str) else json.dumps(config))

    def test_a_task_that_is_no_object_is_refused(self):
        message = tf_config_refusal({"cluster": {"ps": ["p:1"]}, "task": "worker"})
        assert "task" in message
        assert "object" in message

    def test_further_jobs_of_the_cluster_are_left_out_with_a_warning(self, caplog):
        cluster = {"server": ["s:1"], "ps": ["p:1"], "data": {"7": "d:1"}, "odd": 3}
        assert parse_tf_config(json.dumps({"cluster": cluster})) == ({"ps_hosts": ("p:1",)}, {})
        assert "the tasks of server, data, odd (from TF_CONFIG) do not train" in caplog.text

    @pytest.mark.parametrize("hosts", ["p:1", 3, None, [1], [["p:1"]]])
    def test_hosts_that_are_no_list_of_addresses_are_refused(self, hosts):
        message = tf_config_refusal({"cluster": {"ps": hosts}})
        assert "ps" in message
        assert "list" in message

    @pytest.mark.parametrize("host", [3, None, ["w:1"], {"w": 1}])
    def test_an_address_in_a_map_that_is_no_text_is_refused(self, host):
        message = tf_config_refusal({"cluster": {"ps": ["p:1"], "worker": {"0": host}}})
        assert "TF_CONFIG cluster worker" in message
        assert "list of host:port" in message

    @pytest.mark.parametrize("kind", ["server", None, "", 3])
    def test_an_unknown_task_type_is_refused_with_the_known_ones(self, kind):
        message = tf_config_refusal({"cluster": {"ps": ["p:1"]}, "task": {"type": kind, "index": 0}})
        assert repr(kind) in message
        assert "worker" in message

    @pytest.mark.parametrize("index", [-1, "one", 1.5, True, None, [0], "²"])
    def test_an_index_that_is_no_whole_number_is_refused(self, index):
        message = tf_config_refusal({"cluster": {"ps": ["p:1"]}, "task": {"type": "ps", "index": index}})
        assert repr(index) in message
        assert "index" in message

    @pytest.mark.parametrize("key", ["a", "-1", "1.5", "", "²"])
    def test_a_map_whose_keys_are_no_indices_is_refused(self, key):
        message = tf_config_refusal({"cluster": {"worker": {key: "w:1"}}})
        assert "worker" in message
        assert "whole numbers" in message
