"""The hosts themselves: that each fault does what its name says, without a job."""

from __future__ import annotations

import os
import pathlib
import socket

from tests.hosts.host import Host, Network
from tests.support.machine.proc import is_alive
from tests.support.machine.processes import Process, Processes, eventually

LISTEN = """
import socket
server = socket.create_server(("", 2222))
print("listening", flush=True)
while True:
    connection, peer = server.accept()
    print("connected", peer[0], flush=True)
    while part := connection.recv(100):
        print("got", part.decode(), flush=True)
        connection.sendall(part)
    print("closed", flush=True)
"""
TALK = """
import socket, sys, time
connection = socket.create_connection((sys.argv[1], 2222), timeout=5)
connection.settimeout(float(sys.argv[2]))
for number in range(10**6):
    try:
        connection.sendall(b"%d " % number)
        print("answer", connection.recv(100).decode(), flush=True)
    except OSError as error:
        print("error", type(error).__name__, flush=True)
    time.sleep(0.05)
"""


def python(host: Host, script: str, *arguments: str) -> Process:
    return host.command(["python3", "-c", script, *arguments])


def talk(listener: Host, talker: Host, timeout: str = "0.3") -> tuple[Process, Process]:
    server = python(listener, LISTEN)
    server.wait_for("listening", 20)
    client = python(talker, TALK, listener.name, timeout)
    client.wait_for("answer", 20)
    return server, client


def new_lines(process: Process, word: str, secs: float) -> int:
    """How many lines with a word come within the seconds."""
    before = process.output.count(word)
    process._reader.join(secs)
    return process.output.count(word) - before


def test_a_host_has_a_name_an_address_processes_and_a_disk_of_its_own(network: Network, tmp_path: pathlib.Path) -> None:
    a, b = network.host("alpha"), network.host("beta")
    for host in (a, b):
        own = host.command(
            ["sh", "-c", f"hostname; hostname > {network.disk}/mine; ls {network.disk}; ps -e -o pid=,comm="]
        )
        assert own.wait(20) == 0
        assert own.lines[:2] == [host.name, "mine"] and own.lines[2].split() == ["1", "cat"]
        assert (host.disk / "mine").read_text() == host.name + "\n"
    assert socket.gethostname() not in ("alpha", "beta") and not list((tmp_path / "disk").iterdir())
    server, _ = talk(a, b)
    server.wait_for(f"connected {b.address}", 10)


def test_packets_are_dropped_in_one_direction_or_in_both_and_pass_again(network: Network) -> None:
    a, b = network.host("alpha"), network.host("beta")
    server, client = talk(a, b)
    heard, answered = server.output.count("got"), client.output.count("answer")
    network.drop(a, b)  # what b says still arrives, until it has no room left for what is not acknowledged
    client.wait_for("error TimeoutError", 10)
    assert client.output.count("answer") - answered <= server.output.count("got") - heard - 1
    network.pass_on(a, b)
    eventually(lambda: new_lines(client, "answer", 1) > 2, 20, "answers")
    network.drop(b, a)
    assert new_lines(server, "got", 2) <= 1
    network.pass_on(b, a)
    eventually(lambda: new_lines(client, "answer", 1) > 2, 20, "answers")
    network.part(a)
    assert new_lines(server, "got", 2) <= 1 and new_lines(client, "answer", 2) <= 1
    network.join(a)
    eventually(lambda: new_lines(client, "answer", 1) > 2, 20, "answers")
    assert "closed" not in server.output and "Reset" not in client.output


def test_a_host_without_power_leaves_connections_open_and_no_process(network: Network) -> None:
    a, b = network.host("alpha"), network.host("beta")
    server, client = talk(a, b)
    kept = a.disk / "kept"
    kept.write_text("kept")
    a.power_off()
    eventually(lambda: not is_alive(server.pid), 10, "the end")
    assert new_lines(client, "answer", 2) <= 1
    assert "Reset" not in client.output and "BrokenPipe" not in client.output, client.output
    again = network.host("alpha")
    assert again.address != a.address and kept.read_text() == "kept"
    talk(again, b)


def test_nothing_is_left_of_a_network_not_even_after_an_error(tmp_path: pathlib.Path, processes: Processes) -> None:
    links = pathlib.Path("/sys/class/net")
    before, mounts = {*links.iterdir()}, pathlib.Path("/proc/mounts").read_text()
    try:
        with Network(tmp_path, processes) as network:
            host = network.host("alpha", size="1m")
            process = host.command(["sleep", "1000"])
            eventually(lambda: "sleep 1000 " in host.processes(), 10, "the process")
            pids = [host.namespaces.pid, process.pid]
            raise ValueError
    except ValueError:
        pass
    assert process.wait(10) != 0 and not any(is_alive(pid) for pid in pids)
    assert {*links.iterdir()} == before and pathlib.Path("/proc/mounts").read_text() == mounts


def test_packets_are_late_and_some_are_lost(tmp_path: pathlib.Path, processes: Processes) -> None:
    with Network(tmp_path, processes, delay_ms=30, loss=0.2) as network:
        a, b = network.host("alpha"), network.host("beta")
        network.connect()
        ping = b.command(["python3", "-c", PING, a.name])
        assert ping.wait(60) == 0, ping.output
        times = [float(line) for line in ping.lines]
    assert 100 < len(times) < 150, "of 200, two packets each: 64 % come back"
    assert 0.06 <= min(times) < 0.08


PING = f"""
import socket, sys, time
HEADER = bytes([8, 0])
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
raw.settimeout(0.15)
raw.connect((sys.argv[1], 0))
for number in range(200):
    body = number.to_bytes(2, "big") + ({os.getpid() % 65536}).to_bytes(2, "big")
    total = sum(int.from_bytes(part, "big") for part in (HEADER, body[:2], body[2:]))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    sent = time.monotonic()
    raw.send(HEADER + (total ^ 0xFFFF).to_bytes(2, "big") + body)
    try:
        while raw.recv(200)[24:28] != body:
            pass
        print(time.monotonic() - sent, flush=True)
    except TimeoutError:
        pass
"""
