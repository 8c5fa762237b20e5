"""Addresses, and the cluster that host lists describe."""

from __future__ import annotations

import pytest

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.cluster import Address, Cluster
from ps_train.config.job import Job, Task


def cluster_of(**fields):
    return Cluster.of(Job(**{"ps_hosts": ("p:1",), "worker_hosts": ("w:1", "w:2"), **fields}))


def refusal(**fields):
    with pytest.raises(ConfigError) as caught:
        cluster_of(**fields)
    return str(caught.value)


class TestAddress:
    @pytest.mark.parametrize(
        ("text", "host", "port"),
        [
            ("a:2222", "a", 2222),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("host-a.example.com:65535", "host-a.example.com", 65535),
            ("[::1]:2222", "::1", 2222),
            ("[fe80::1%eth0]:2222", "fe80::1%eth0", 2222),
            (" a:2222 ", "a", 2222),
        ],
    )
    def test_host_and_port_are_read(self, text, host, port):
        assert Address.parse(text, "ps_hosts") == Address(host, port)

    @pytest.mark.parametrize("text", ["a:2222", "[::1]:2222"])
    def test_an_address_is_written_as_it_is_read(self, text):
        assert str(Address.parse(text, "ps_hosts")) == text

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "a",
            "2222",
            ":2222",
            "::1:2222",
            "a:b:1",
            "a b:2222",
            "grpc://a:2222",
            "a,b:1",
            "[::1:2222",
            "[]:2222",
            "a\tb:1",
            "1=a:2222",
        ],
    )
    def test_what_is_no_address_is_refused_with_text_and_place(self, text):
        with pytest.raises(ConfigError) as caught:
            Address.parse(text, "ps_hosts (from TF_CONFIG)")
        shown = text.replace("\t", "\\t")
        assert f'"{shown}" in ps_hosts (from TF_CONFIG)' in str(caught.value)
        assert "host:port" in str(caught.value)

    @pytest.mark.parametrize(
        "host", ["a..b", ".a", ".", "a" * 64, f"b.{'a' * 64}.example.com", ".".join(["a" * 60] * 5), "a\0b", "a\x7f"]
    )
    def test_a_name_that_no_resolver_takes_is_refused(self, host):
        with pytest.raises(ConfigError) as caught:
            Address.parse(f"{host}:2222", "ps_hosts (from TF_CONFIG)")
        told = str(caught.value)
        assert "in ps_hosts (from TF_CONFIG)" in told
        assert "63" in told
        assert told.isprintable()
        assert len(told) < 500

    @pytest.mark.parametrize("host", ["a" * 63, "a.b.", ".".join(["a" * 60] * 4), "a_b-c", "b\u00fccher"])
    def test_a_name_that_a_resolver_takes_is_accepted(self, host):
        assert Address.parse(f"{host}:2222", "ps_hosts").host == host

    @pytest.mark.parametrize("port", ["65536", "99999", "0", "-1", "+5", "", "http", "22.5", "٢٢"])
    def test_a_port_that_is_not_from_1_to_65535_is_refused(self, port):
        with pytest.raises(ConfigError) as caught:
            Address.parse(f"a:{port}", "worker_hosts")
        assert f'"{port}"' in str(caught.value)
        assert f'"a:{port}" in worker_hosts' in str(caught.value)
        assert "1 to 65535" in str(caught.value)


class TestCluster:
    def test_every_task_has_its_address(self):
        cluster = cluster_of(ps_hosts=("p:1", "p:2"), chief_hosts=("c:1",))
        assert {name: str(address) for name, address in cluster.tasks().items()} == {
            "ps:0": "p:1",
            "ps:1": "p:2",
            "chief:0": "c:1",
            "worker:0": "w:1",
            "worker:1": "w:2",
        }
        assert cluster.address(Task("worker", 1)) == Address("w", 2)

    def test_worker_0_is_the_chief_unless_one_is_named(self):
        assert cluster_of().chief == Task("worker", 0)
        assert cluster_of(chief_hosts=("c:1",)).chief == Task("chief", 0)

    def test_a_named_chief_is_a_replica_and_the_first_one(self):
        cluster = cluster_of(chief_hosts=("c:1",))
        assert cluster.num_replicas == 3
        assert cluster.replicas() == [Task("chief", 0), Task("worker", 0), Task("worker", 1)]
        assert cluster.replica_index(Task("worker", 1)) == 2

    def test_without_a_named_chief_replicas_are_the_workers(self):
        cluster = cluster_of()
        assert cluster.num_replicas == 2
        assert cluster.replica_index(Task("worker", 1)) == 1

    def test_a_chief_without_workers_is_a_cluster(self):
        cluster = cluster_of(worker_hosts=(), chief_hosts=("c:1",))
        assert cluster.replicas() == [Task("chief", 0)]

    def test_no_ps_is_refused(self):
        message = refusal(ps_hosts=())
        assert "ps_hosts" in message
        assert "--ps_hosts=" in message

    def test_no_worker_is_refused(self):
        assert "worker_hosts" in refusal(worker_hosts=())

    def test_two_chiefs_are_refused_with_their_source(self):
        message = refusal(chief_hosts=("c:1", "c:2"), sources={"chief_hosts": "TF_CONFIG"})
        assert "chief_hosts" in message
        assert "2" in message
        assert "TF_CONFIG" in message

    @pytest.mark.parametrize(
        ("fields", "first", "second"),
        [
            ({"ps_hosts": ("x:1", "x:1")}, "ps:0", "ps:1"),
            ({"ps_hosts": ("w:2",)}, "ps:0", "worker:1"),
            ({"worker_hosts": ("w:1", "w:1")}, "worker:0", "worker:1"),
            ({"chief_hosts": ("w:1",)}, "chief:0", "worker:0"),
            ({"chief_hosts": ("p:1",)}, "ps:0", "chief:0"),
        ],
    )
    def test_one_address_for_two_tasks_is_refused_with_both(self, fields, first, second):
        message = refusal(**fields)
        assert first in message
        assert second in message

    def test_a_bad_address_is_refused_with_its_list_and_source(self):
        message = refusal(worker_hosts=("w:1", "w:70000"), sources={"worker_hosts": "the command line"})
        assert "w:70000" in message
        assert "worker_hosts (from the command line)" in message

    def test_an_index_out_of_range_is_refused_with_the_tasks_that_there_are(self):
        with pytest.raises(ConfigError) as caught:
            cluster_of().address(Task("worker", 4))
        for part in ("task_index=4", '"worker"', "2 tasks", "w:1, w:2", "0, 1"):
            assert part in str(caught.value)

    def test_a_job_that_the_cluster_has_not_is_refused_with_those_it_has(self):
        with pytest.raises(ConfigError) as caught:
            cluster_of().address(Task("chief", 0))
        assert "'chief'" in str(caught.value)
        assert "ps:0, worker:0, worker:1" in str(caught.value)

    def test_a_number_of_workers_that_the_list_has_is_accepted(self):
        assert cluster_of(num_workers=2).num_workers == 2

    def test_a_number_of_workers_that_the_list_has_not_is_refused_with_both(self):
        message = refusal(num_workers=3, sources={"num_workers": "the command line"})
        assert "num_workers=3 (from the command line)" in message
        assert "has 2" in message


class TestWorkersWithIndices:
    def test_a_list_may_name_some_workers_only(self):
        cluster = cluster_of(worker_hosts=("2=w:9",), num_workers=4)
        assert cluster.address(Task("worker", 2)) == Address("w", 9)
        assert cluster.num_workers == 4
        assert cluster.replica_index(Task("worker", 3)) == 3

    def test_indices_may_stand_in_any_order(self):
        cluster = cluster_of(worker_hosts=("1=w:1", "0=w:5"))
        assert str(cluster.address(Task("worker", 0))) == "w:5"
        assert cluster.num_workers == 2

    def test_a_list_with_gaps_needs_the_number_of_workers(self):
        message = refusal(worker_hosts=("1=w:1",), sources={"worker_hosts": "TF_CONFIG"})
        assert "[1]" in message
        assert "--num_workers" in message
        assert "TF_CONFIG" in message

    def test_an_index_beyond_the_number_of_workers_is_refused(self):
        message = refusal(worker_hosts=("2=w:1",), num_workers=2)
        assert "worker 2" in message
        assert "num_workers=2" in message
        assert "0 to 1" in message

    def test_the_same_index_twice_is_refused(self):
        message = refusal(worker_hosts=("1=w:1", "1=w:2"), num_workers=2)
        assert "worker 1" in message
        assert "worker_hosts" in message

    @pytest.mark.parametrize("entry", ["w:2", "x=w:2", "-1=w:2", "=w:2", "1.0=w:2", "²=w:2"])
    def test_an_entry_without_a_whole_index_among_others_is_refused(self, entry):
        message = refusal(worker_hosts=("0=w:1", entry), num_workers=3)
        assert f'"{entry}" in worker_hosts' in message
        assert "INDEX=host:port" in message


class TestElastic:
    def test_those_after_the_declared_workers_may_join(self):
        cluster = cluster_of(max_workers=4)
        assert (cluster.num_workers, cluster.max_workers) == (2, 4)
        assert [str(task) for task in cluster.replicas()] == ["worker:0", "worker:1"]
        assert cluster.replica_index(Task("worker", 3)) == 3

    @pytest.mark.parametrize("hosts", [("5=w:9",), ("0=w:1", "1=w:2", "5=w:9")])
    def test_a_joining_worker_names_itself_and_how_many_are_declared(self, hosts):
        cluster = cluster_of(worker_hosts=hosts, num_workers=2, max_workers=16)
        assert cluster.num_workers == 2
        assert cluster.address(Task("worker", 5)) == Address("w", 9)

    def test_a_list_may_name_more_than_are_declared(self):
        assert cluster_of(worker_hosts=("w:1", "w:2", "w:3"), num_workers=2, max_workers=16).num_workers == 2

    def test_a_worker_beyond_the_most_is_refused_with_both(self):
        message = refusal(worker_hosts=("16=w:1",), num_workers=2, max_workers=16)
        assert "max_workers=16 is too few" in message
        assert "worker 16" in message
        assert "at least 17" in message

    def test_more_declared_workers_than_the_most_are_refused(self):
        assert "at least 2" in refusal(max_workers=1)

    def test_an_epoch_that_is_divided_already_is_refused(self):
        message = refusal(max_workers=16, epochs=2)
        assert "epochs=2" in message and "--sharding=dynamic" in message


class TestPsOnWorkers:
    def test_each_replica_is_the_ps_of_its_index_the_chief_first(self):
        found = cluster_of(ps_hosts=(), chief_hosts=("c:1",), ps_on_workers=True)
        assert [str(task) for task in found.ps_tasks[:2]] == ["chief:0", "worker:0"]
        assert [str(address) for address in found.ps] == ["c:1", "w:1", "w:2"]
        assert [found.replica_index(Task("chief", 0)), found.replica_index(Task("worker", 1))] == [0, 2]
        assert list(found.tasks()) == ["chief:0", "worker:0", "worker:1"]

    def test_all_workers_must_be_known(self):
        text = refusal(ps_hosts=(), worker_hosts=("1=w:2",), num_workers=3, ps_on_workers=True)
        assert "needs the address of every worker" in text and "lacks worker 0, 2" in text

    def test_a_cluster_without_ps_names_the_flag(self):
        assert "ps_on_workers" in refusal(ps_hosts=())
