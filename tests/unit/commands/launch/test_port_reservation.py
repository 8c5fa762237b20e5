"""Reserved ports: outside of what the kernel gives away, and seen by every other socket."""

from __future__ import annotations

import socket

import pytest

from ps_train.commands.launch import port_reservation
from ps_train.commands.launch.port_reservation import PortReservation, safe_ports


@pytest.fixture
def ports():
    made = PortReservation()
    yield made
    for reserved in made.sockets.values():
        reserved.close()


def port_of(address):
    host, _, port = address.rpartition(":")
    assert host == "127.0.0.1"
    return int(port)


def test_no_outgoing_connection_can_get_a_reserved_port(ports):
    low, high = port_reservation._ephemeral_ports()
    reserved = [port_of(ports.reserve()) for _ in range(50)]
    assert len(set(reserved)) == 50
    assert not any(low <= port <= high for port in reserved)


@pytest.mark.parametrize(
    ("range_", "first"), [("32768 60999", 61000), ("20000 65535", 10000), ("1024 65535", None), ("1024 64900", None)]
)
def test_ports_above_the_kernels_range_come_first(monkeypatch, tmp_path, range_, first):
    (tmp_path / "range").write_text(range_.replace(" ", "\t") + "\n")
    monkeypatch.setattr(port_reservation, "_EPHEMERAL_PORTS", str(tmp_path / "range"))
    assert next(iter(safe_ports()), None) == first


def test_where_the_kernel_has_all_ports_it_chooses_one(monkeypatch, tmp_path, ports):
    (tmp_path / "range").write_text("1024 65535")
    monkeypatch.setattr(port_reservation, "_EPHEMERAL_PORTS", str(tmp_path / "range"))
    assert port_of(ports.reserve()) >= 1024


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "127.0.0.2"])
def test_no_other_socket_gets_a_reserved_port_on_any_interface(ports, host):
    port = port_of(ports.reserve())
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((host, port))


def test_a_port_that_is_in_use_on_another_interface_is_not_reserved(monkeypatch, ports):
    with socket.socket() as other:
        other.bind(("127.0.0.2", 0))
        port = other.getsockname()[1]
        monkeypatch.setattr(port_reservation, "safe_ports", lambda: range(port, port + 1))
        assert port_of(ports.reserve()) != port


def test_a_port_is_reserved_again_for_the_next_process_of_its_task(ports):
    address = ports.reserve()
    ports.sockets.pop(address).close()
    ports.reserve_again(address)
    assert ports.sockets[address].getsockname()[1] == port_of(address)
    ports.reserve_again("127.0.0.1:1")  # given by the user
    assert list(ports.sockets) == [address]
