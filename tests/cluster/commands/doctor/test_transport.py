"""Measurements between two TensorFlow servers of this process."""

from __future__ import annotations

import time

from ps_train.cluster.addresses.cluster import Address, Cluster
from ps_train.cluster.membership import records
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.commands.doctor.network import Answer
from ps_train.commands.doctor.transport import DoctorServer, measure_all, new_record, ping
from ps_train.config.job import Job, Task
from tests.support.clusters.servers import POOL
from tests.support.machine.ports import free_ports

VERSIONS = {"TensorFlow": "1"}


def job_with(ps, worker):
    job = Job(ps_hosts=(ps,), worker_hosts=(worker,))
    return job, Cluster.of(job)


def test_a_doctor_measures_the_doctor_of_a_ps_and_says_so():
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    job, cluster = job_with(ps, worker)
    serving = DoctorServer(new_record(job, Task("ps", 0), VERSIONS, 3), Address.parse(ps, ""), job)
    own = new_record(job, Task("worker", 0), VERSIONS, 2)
    server = DoctorServer(own, Address.parse(worker, ""), job)
    (found,) = measure_all(job, cluster, own, server, 10, ["ps:0"])
    assert found.answer is Answer.GRPC and found.record is not None and found.record.cores == 3
    assert not found.problem and not found.refused
    assert found.round_trip is not None and 0 < found.round_trip < 1
    assert found.clock_offset is not None and abs(found.clock_offset) < 0.5  # it is the same clock
    assert found.pull is not None and found.push is not None and min(found.pull, found.push) > 1 << 20
    assert found.pull_cpu is not None and found.push_cpu is not None and min(found.pull_cpu, found.push_cpu) > 0
    seen = []
    assert serving.await_doctors(["worker:0", "worker:1"], time.monotonic() + 1.5, seen.append) == ["worker:1"]
    assert [record.task for record in seen] == ["worker:0"]


def test_another_list_of_hosts_is_refused():
    ps, worker, other = (f"127.0.0.1:{port}" for port in free_ports(3))
    theirs, _ = job_with(ps, other)
    DoctorServer(new_record(theirs, Task("ps", 0), VERSIONS, 3), Address.parse(ps, ""), theirs)
    job, cluster = job_with(ps, worker)
    own = new_record(job, Task("worker", 0), VERSIONS, 2)
    (found,) = measure_all(job, cluster, own, None, 10, ["ps:0"])
    assert "has other host lists" in found.refused and found.pull is None


def test_the_ps_of_a_running_job_is_only_asked_for_its_time():
    (running,) = POOL.take(1)
    job, cluster = job_with(running.host, "127.0.0.1:1")
    store = KeyValueStore(running.target, "ps:0")
    store.set(records.IDENTITY, records.new_identity("ps:0", job.shared_fields()).to_json())
    before = store.items()
    own = new_record(job, Task("worker", 0), VERSIONS, 2)
    (found,) = measure_all(job, cluster, own, None, 10, ["ps:0"])
    assert found.running is not None and found.record is None and found.pull is None
    assert found.round_trip is not None and store.items() == before


def test_a_server_without_a_record_is_neither_ps_nor_doctor():
    (running,) = POOL.take(1)
    job, cluster = job_with(running.host, "127.0.0.1:1")
    own = new_record(job, Task("worker", 0), VERSIONS, 2)
    began = time.monotonic()
    (found,) = measure_all(job, cluster, own, None, 1, ["ps:0"])
    assert "neither a ps nor the doctor" in found.problem and time.monotonic() - began < 20


def test_a_ping_takes_the_time_of_the_server():
    (running,) = POOL.take(1)
    round_trip, offset = ping(Address.parse(running.host, ""))
    assert 0 < round_trip < 1 and abs(offset) < 0.5
