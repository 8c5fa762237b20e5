"""Racks of tasks from a file, the places that follow from them, and what is wrong with a file."""

from __future__ import annotations

import json

import pytest

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.topology import RackPlace, Topology, known_topology, rack_port_of, racks_of_file
from ps_train.config.job import Job, Task


def job_of(path, racks, **fields):
    path.write_text(racks if isinstance(racks, str) else json.dumps(racks))
    hosts = {"ps_hosts": ("p:1", "q:1"), "worker_hosts": ("p:2", "q:2", "q:3", "r:2")}
    return Job(update="sync", rack_file=str(path), **{**hosts, **fields})


def test_a_task_has_the_rack_of_its_host_unless_it_is_named_itself(tmp_path):
    job = job_of(tmp_path / "racks", {"p": "a", "q": "b", "r": "b", "q:3": "c", "worker:3": "a"})
    racks = racks_of_file(job, Cluster.of(job))
    assert racks == {"ps:0": "a", "ps:1": "b", "worker:0": "a", "worker:1": "b", "worker:2": "c", "worker:3": "a"}
    topology = Topology.of(racks, Cluster.of(job))
    assert topology.names == ("a", "b", "c")
    assert topology.workers == (("worker:0", "worker:3"), ("worker:1",), ("worker:2",))
    assert topology.place(Task("worker", 3)) == RackPlace("a", 0, 3, 1, 2)
    assert topology.place(Task("worker", 2)) == RackPlace("c", 2, 3, 0, 1)


def test_the_chief_is_the_first_worker_of_its_rack(tmp_path):
    job = job_of(tmp_path / "racks", {"p": "a", "q": "b", "r": "b"}, chief_hosts=("r:9",))
    topology = known_topology(job, Task("worker", 1), Cluster.of(job))
    assert topology.names == ("b", "a")
    assert topology.workers[0] == ("chief:0", "worker:1", "worker:2", "worker:3")


@pytest.mark.parametrize(
    ("racks", "ps"),
    [
        ({"p": "a", "q": "b", "r": "b"}, [1]),
        ({"p": "a", "q": "b", "r": "a"}, [0]),
        ({"p": "a", "q": "a", "r": "b"}, [0, 1]),
    ],
)
def test_the_ps_of_the_largest_rack(tmp_path, racks, ps):
    job = job_of(tmp_path / "racks", racks)
    assert known_topology(job, Task("ps", 0), Cluster.of(job)).ps_of_largest(2) == ps


def test_a_rack_without_ps_is_not_the_largest(tmp_path):
    job = job_of(tmp_path / "racks", {"ps:0": "a", "ps:1": "a", "p": "a", "q": "b", "r": "b"})
    assert known_topology(job, Task("ps", 0), Cluster.of(job)).ps_of_largest(2) == [0, 1]


@pytest.mark.parametrize(
    ("racks", "text"),
    [
        ("{", "is not a JSON file: it is not JSON"),
        ([], 'is not a JSON object: use for example {"host1": "a", "host2": "b"}.'),
        ({"p": "a", "q": "b"}, "has no rack for worker:3 at r:2: add r or worker:3."),
        ({"p": 1}, "has the rack 1 for p: use letters, digits, '.', '_' and '-', at most 63."),
        ({"p": "a b"}, "has the rack a b for p: use letters"),
        ({"p": ""}, "has the rack '' for p: use letters"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path, racks, text):
    job = job_of(tmp_path / "racks", racks)
    with pytest.raises(ConfigError) as caught:
        racks_of_file(job, Cluster.of(job))
    assert f"rack_file={tmp_path}/racks" in str(caught.value) and text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_contradicting_rack_are_refused(tmp_path):
    job = job_of(tmp_path / "racks", {"p": "a", "q": "b", "r": "b"}, rack="c")
    with pytest.raises(ConfigError, match="rack=c, but rack_file has the rack b for worker:1: leave one of them out"):
        known_topology(job, Task("worker", 1), Cluster.of(job))
    (tmp_path / "racks").unlink()
    with pytest.raises(ConfigError, match="cannot be read: No such file or directory"):
        known_topology(job, Task("worker", 1), Cluster.of(job))
    assert known_topology(Job(), Task("worker", 1), Cluster.of(job)).is_flat


def test_the_bytes_between_racks(tmp_path):
    job = job_of(tmp_path / "racks", {"p": "a", "q": "b", "r": "b"})
    topology = known_topology(job, Task("worker", 0), Cluster.of(job))
    # Rack a, of one worker, uses ps:1 from afar; rack b, of three, uses ps:0.
    assert topology.core_bytes([10, 100]) == (2 * 100 + 2 * 10, 2 * 100 + 3 * 2 * 10)


def test_the_ports_of_aggregators_count_up_on_each_host(tmp_path):
    job = job_of(tmp_path / "racks", {"p": "a", "q": "b", "r": "b"}, rack_port=3000)
    cluster = Cluster.of(job)
    assert [rack_port_of(job, cluster, task) for task in cluster.replicas()] == [3000, 3000, 3001, 3000]
    assert rack_port_of(Job(), cluster, Task("worker", 1)) == 0


@pytest.mark.parametrize(
    ("port", "why"),
    [(1, "port 1, which is the port of ps:0"), (3, "port 3, which is the port"), (65535, "65536, which is out")],
)
def test_a_port_of_an_aggregator_that_cannot_be_is_refused_in_one_line(tmp_path, port, why):
    job = job_of(tmp_path / "racks", {"p": "a", "q": "b", "r": "b"}, rack_port=port)
    with pytest.raises(ConfigError, match=f"rack_port={port} gives worker:.* the port .*{why[-8:]}"):
        for task in Cluster.of(job).replicas():
            rack_port_of(job, Cluster.of(job), task)


def test_an_ipv6_host_has_its_rack_with_or_without_brackets(tmp_path):
    lists = {"ps_hosts": ("[::1]:1",), "worker_hosts": ("[::1]:2", "[fd00::2]:2")}
    for key in ("[fd00::2]", "fd00::2", "[fd00::2]:2"):
        job = job_of(tmp_path / "racks", {"::1": "a", key: "b"}, **lists)
        assert racks_of_file(job, Cluster.of(job)) == {"ps:0": "a", "worker:0": "a", "worker:1": "b"}


def test_a_task_on_this_machine_that_has_no_rack_is_named_without_its_address(tmp_path):
    (tmp_path / "racks").write_text('{"ps:0": "a", "worker:0": "a"}')
    job = Job(
        ps_hosts=("127.0.0.1:1",),
        worker_hosts=("127.0.0.1:2", "127.0.0.1:3"),
        rack_file=str(tmp_path / "racks"),
        update="sync",
    )
    with pytest.raises(ConfigError, match=r'has no rack for worker:1: add "worker:1": "NAME"\.'):
        racks_of_file(job, Cluster.of(job))
