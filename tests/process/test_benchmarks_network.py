"""The slow wire between namespaces is as slow as it should be."""

from __future__ import annotations

import sys

import pytest

from benchmarks.errors import SkippedError
from benchmarks.namespaces import Loopback, Network
from benchmarks.processes import ROOT, Processes, Program
from tests.support.machine.link import Pace

_SERVER = """
import socket
with socket.create_server(("0.0.0.0", 4000)) as listener:
    print("listening", flush=True)
    other, _ = listener.accept()
    while block := other.recv(1 << 20):
        if block.endswith(b"?"):
            other.send(b"!")
"""
_CLIENT = """
import socket, sys, time
other = socket.create_connection((sys.argv[1], 4000))
other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times = []
for size in (1, 1, 1, 1, 1, 1, 20_000_000, 20_000_000):
    began = time.monotonic()
    other.sendall(b"." * (size - 1) + b"?")
    other.recv(1)
    times.append(time.monotonic() - began)
print("times", min(times[:6]), min(times[6:]), flush=True)
"""


def test_packets_leave_one_after_the_other_and_arrive_later():
    pace = Pace(delay=0.5, bytes_per_sec=100.0)
    assert pace.arrival(now=1.0, size=100) == 2.5
    assert pace.arrival(now=1.0, size=100) == 3.5, "the second waits until the first has left"
    assert pace.arrival(now=9.0, size=100) == 10.5


def test_the_wire_delays_and_paces():
    try:
        with Network(["a", "b"], delay_ms=20, mbit=200) as network, Processes(ROOT) as processes:
            here, there = network.places["a"], network.places["b"]
            server = processes.start(Program("server", [*there.prefix, sys.executable, "-c", _SERVER]))
            server.wait_for(lambda line: line.text == "listening", within_secs=20)
            client = processes.start(Program("client", [*here.prefix, sys.executable, "-c", _CLIENT, there.host]))
            line = client.wait_for(lambda line: line.text.startswith("times"), within_secs=60)
    except SkippedError as reason:
        pytest.skip(str(reason))
    round_trip, transfer = map(float, line.text.split()[1:])
    assert 0.04 <= round_trip < 0.08
    assert 20e6 * 8 / 200e6 <= transfer < 2.0, "0.8 s at the pace, and a little for the start"


def test_a_loopback_of_its_own_counts_what_is_sent_and_nothing_else():
    try:
        with Loopback() as alone, Processes(ROOT) as processes:
            assert alone.bytes_sent() == 0
            server = processes.start(Program("server", [*alone.prefix, sys.executable, "-c", _SERVER]))
            server.wait_for(lambda line: line.text == "listening", within_secs=20)
            client = processes.start(Program("client", [*alone.prefix, sys.executable, "-c", _CLIENT, "127.0.0.1"]))
            client.wait_for(lambda line: line.text.startswith("times"), within_secs=60)
            assert 40e6 < alone.bytes_sent() < 41e6
    except SkippedError as reason:
        pytest.skip(str(reason))
