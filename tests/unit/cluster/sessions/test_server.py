"""Configurations of servers and sessions, and ports that are not free at once."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.cluster import Address, Cluster
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.sessions import server as module
from ps_train.cluster.sessions.server import (
    forget_jobs,
    has_server,
    serve_on_port,
    session_config,
    start_server,
)
from ps_train.commands.launch.port_reservation import PortReservation
from ps_train.compat.train import server as classic
from ps_train.config.job import Job, Task


@pytest.mark.parametrize(("gpus", "growth", "count"), [(0, True, {"GPU": 0}), (2, False, {"GPU": 2}), (-1, True, {})])
def test_the_devices_of_a_worker_can_be_set(gpus: int, growth: bool, count: dict[str, int]) -> None:
    job = Job(ps_hosts=("p:1",), worker_hosts=("a:1", "b:1"), gpus=gpus, gpu_memory_growth=growth)
    config = session_config(Cluster.of(job), Task("worker", 1), job)
    assert dict(config.device_count) == count and config.gpu_options.allow_growth == growth
    tasks = {one.name: dict(one.tasks) for one in config.cluster_def.job}
    assert tasks == {"ps": {0: "p:1"}, "worker": {1: "b:1"}}, "a session knows the ps and itself"


@pytest.fixture
def held():
    """A reserved port, and the socket that holds it."""
    ports = PortReservation()
    address = Address.parse(ports.reserve(), "test")
    (reserved,) = ports.sockets.values()
    with reserved:
        yield address, reserved


@pytest.mark.parametrize("is_classic", [False, True])
def test_a_launcher_that_still_holds_the_port_delays_the_server(held, is_classic):
    address, reserved = held
    threading.Timer(0.3, reserved.close).start()
    if is_classic:
        server = classic.Server({"local": [str(address)]}, job_name="local", task_index=0)
    else:
        server = start_server(address, Job())
    assert server.target == f"grpc://{address}"


def test_a_port_that_stays_taken_is_an_error_of_the_configuration(held, monkeypatch):
    address, _ = held
    monkeypatch.setattr(module, "_BUSY_SECS", 0.3)
    with pytest.raises(ConfigError, match=f"TensorFlow cannot serve on {address}: Could not start gRPC server"):
        start_server(address, Job())


def test_a_port_that_another_process_serves_is_not_tried_again():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address("127.0.0.1", listener.getsockname()[1])
        began = time.monotonic()
        with pytest.raises(ConfigError, match=r"TensorFlow cannot serve on .* \(held by pid \d+"):
            start_server(address, Job())
    assert time.monotonic() - began < module._BUSY_SECS


def test_another_error_is_not_tried_again():
    calls = []
    with pytest.raises(ValueError, match="other"):
        serve_on_port(None, lambda: calls.append(1) or (_ for _ in ()).throw(ValueError("other")))
    assert calls == [1]


def test_a_further_job_of_a_process_has_its_server_without_the_state_of_the_last_one(monkeypatch):
    monkeypatch.setattr(module, "_servers", {})
    ports = PortReservation()
    address = Address.parse(ports.reserve(), "test")
    ports.sockets.pop(str(address)).close()
    assert not has_server(address)
    server = start_server(address, Job())
    store = KeyValueStore(server.target, "ps:0")
    store.set("outcome", "done")
    store.close()
    assert start_server(address, Job()) is server and has_server(address)
    forget_jobs()
    assert KeyValueStore(server.target, "ps:0").items() == {}
