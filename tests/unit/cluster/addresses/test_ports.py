"""The port of a process: held until its server starts."""

from __future__ import annotations

import os
import socket

import pytest

from ps_train.cluster.addresses import ports
from ps_train.cluster.addresses.ports import hold_ports, is_served, release_held_port
from ps_train.config.job import HELD_PORT_VARIABLE


def is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def bound():
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    return made, made.getsockname()[1]


def test_a_process_holds_its_own_ports_until_each_is_released():
    (first, one), (second, other) = bound(), bound()
    hold_ports({f"127.0.0.1:{one}": first, f"127.0.0.1:{other}": second})
    assert not is_free(one) and not is_free(other)
    release_held_port(one)
    assert is_free(one) and not is_free(other)
    release_held_port(other)
    assert is_free(other) and not {one, other} & ports._held.keys()


def test_the_port_that_the_launcher_holds_is_released_once(monkeypatch):
    held, port = bound()
    monkeypatch.setenv(HELD_PORT_VARIABLE, str(held.detach()))
    release_held_port(None)
    assert is_free(port) and HELD_PORT_VARIABLE not in os.environ
    release_held_port(port)


def test_only_a_listener_serves_a_port():
    listener = socket.create_server(("127.0.0.1", 0))
    with listener, socket.create_connection(listener.getsockname()) as outgoing:
        if not os.path.exists("/proc/net/tcp"):
            pytest.skip("no /proc here")
        assert is_served(listener.getsockname()[1])
        assert not is_served(outgoing.getsockname()[1])
