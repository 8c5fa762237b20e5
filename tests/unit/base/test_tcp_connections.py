"""Connections of this process, between sockets of the test."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

import pytest

from ps_train.base import tcp_connections
from ps_train.base.tcp_connections import shut_down_incoming


@contextlib.contextmanager
def served(host: str = "127.0.0.1", family: int = socket.AF_INET) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A listening socket and a connection to it, as the other side holds it."""
    with (
        socket.create_server((host, 0), family=family) as listener,
        socket.create_connection(listener.getsockname()[:2], timeout=10) as client,
        listener.accept()[0],
    ):
        yield listener, client


def ends(client: socket.socket) -> bool:
    client.settimeout(10)
    return client.recv(1) == b""


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        return client.recv(1) != b""
    return True


def connects(listener: socket.socket) -> bool:
    with socket.create_connection(listener.getsockname()[:2], timeout=10) as client, listener.accept()[0] as server:
        client.sendall(b"x")
        return server.recv(1) == b"x"


def test_connections_to_the_port_end_and_the_server_listens_on() -> None:
    with served() as (listener, client):
        assert shut_down_incoming(listener.getsockname()[1]) == 1
        assert ends(client) and connects(listener)


def test_ipv6_is_the_same() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("there is no IPv6")
    with served("::1", socket.AF_INET6) as (listener, client):
        assert shut_down_incoming(listener.getsockname()[1]) == 1
        assert ends(client) and connects(listener)


def test_connections_to_other_ports_are_left_alone() -> None:
    with served() as (listener, client), served() as (_, other_client):
        assert shut_down_incoming(listener.getsockname()[1]) == 1  # and not the end that the client holds
        assert ends(client) and is_open(other_client)


def test_a_port_without_connections_changes_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        before = set(os.listdir("/proc/self/fd"))
        assert shut_down_incoming(listener.getsockname()[1]) == 0
        assert connects(listener) and set(os.listdir("/proc/self/fd")) == before


def test_a_system_that_shows_no_descriptors_has_no_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> list[str]:
        raise FileNotFoundError(path)

    with served() as (listener, client):
        monkeypatch.setattr(tcp_connections.os, "listdir", refuse)
        assert shut_down_incoming(listener.getsockname()[1]) == 0
        monkeypatch.undo()
        assert is_open(client)
