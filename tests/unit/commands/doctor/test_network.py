"""Names, ports and kinds of answers; each wait is short."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from ps_train.cluster.addresses.cluster import Address, Cluster
from ps_train.commands.doctor import network
from ps_train.commands.doctor.network import Answer
from ps_train.config.job import Job, Task
from tests.support.machine.ports import free_ports


@contextlib.contextmanager
def server(answer, family=socket.AF_INET, host="127.0.0.1"):
    """A process that does something with each connection."""
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, 0))
        listener.listen()
        kept = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    kept.append(connection)
                    answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield Address(host, listener.getsockname()[1])


def test_a_refused_connection():
    answer, text = network.probe(Address("127.0.0.1", free_ports(1)[0]))
    assert answer is Answer.REFUSED and "no process listens" in text


def test_a_gRPC_server_answers_with_its_settings():
    with server(lambda c: c.sendall(b"\0\0\0\4\0\0\0\0\0")) as address:
        assert network.probe(address)[0] is Answer.GRPC


def test_an_HTTP_server_is_another_program():
    with server(lambda c: c.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as address:
        answer, text = network.probe(address)
    assert answer is Answer.OTHER and "an HTTP server" in text and "400 Bad Request" in text


def test_a_silent_listener_costs_no_more_than_the_deadline(monkeypatch):
    monkeypatch.setattr(network, "ANSWER_SECS", 0.3)
    with server(lambda c: None) as address:
        began = time.monotonic()
        answer, text = network.probe(address)
    assert answer is Answer.SILENT and "says nothing within 0.3s" in text and time.monotonic() - began < 3


def test_a_process_that_closes_at_once_is_another_program():
    with server(lambda c: c.close()) as address:
        assert network.probe(address)[0] is Answer.OTHER


def test_an_address_of_version_6():
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        with server(lambda c: c.sendall(b"\0\0\0\4\0\0\0\0\0"), socket.AF_INET6, "::1") as address:
            assert network.probe(address)[0] is Answer.GRPC
            assert network.is_here(["::1"])
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")


def test_a_name_that_is_unknown():
    found = network.resolve_all(["no-such-host.invalid", "localhost"])
    tasks = {"ps:0": Address("no-such-host.invalid", 1), "worker:0": Address("localhost", 2)}
    findings = network.names_findings(tasks, found)
    assert [finding.level for finding in findings] == ["FAIL", "ok"]
    assert "'no-such-host.invalid' of ps:0" in findings[0].text and "localhost" in findings[1].text
    assert network.probe(Address("no-such-host.invalid", 1))[0] is Answer.UNRESOLVED


def test_work_that_hangs_has_no_result():
    began = time.monotonic()
    found = network.in_parallel({"quick": lambda: 1, "slow": lambda: time.sleep(5)}, 0.2)
    assert found == {"quick": 1} and time.monotonic() - began < 2


CLUSTER = Cluster.of(Job(ps_hosts=("127.0.0.1:2222", "192.0.2.1:2222"), worker_hosts=("127.0.0.1:2223",)))


def test_a_host_says_which_task_it_would_be():
    own = network.own_tasks(CLUSTER, network.resolve_all(["127.0.0.1", "192.0.2.1"]))
    assert own == ["ps:0", "worker:0"]
    assert "would be ps:0, worker:0" in network.task_finding(CLUSTER, own, None).text
    assert network.task_finding(CLUSTER, [], None).level == "warn"
    assert network.task_finding(CLUSTER, own, Task("ps", 0)).level == "ok"
    found = network.task_finding(CLUSTER, own, Task("ps", 1))
    assert found.level == "warn" and "192.0.2.1 is not an address of this machine" in found.text


def test_a_busy_port_names_its_holder():
    with server(lambda c: None) as address:
        found = network.port_finding(address, Task("ps", 0))
        assert found.level == "FAIL" and f"port {address.port} of ps:0" in found.text and "held by pid" in found.text
    free = Address("127.0.0.1", free_ports(1)[0])
    assert network.port_finding(free, Task("ps", 0)).level == "ok"


def test_a_ps_that_is_not_started_is_only_a_warning_for_a_host_without_a_task():
    address = Address("h", 1)
    levels = {answer: network.reach_finding("ps:0", address, answer, "text").level for answer in Answer}
    assert levels.pop(Answer.GRPC) == "ok" and levels.pop(Answer.REFUSED) == "warn"
    assert set(levels.values()) == {"FAIL"}
