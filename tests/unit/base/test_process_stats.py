"""Resources of this process, against what the test itself uses."""

from __future__ import annotations

import mmap
import os
import socket
import time

import pytest

from ps_train.base import process_stats
from ps_train.base.process_stats import ProcessStats, available_cores, memory_limit, neighbouring_cores


def connection():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    return client, server


def receive(server, count):
    while count > 0:
        count -= len(server.recv(min(count, 1 << 16)))


def test_bytes_of_connections_are_counted_in_both_directions_and_stay_counted_when_one_is_closed():
    stats = ProcessStats()
    before = stats.read()
    client, server = connection()
    client.sendall(b"x" * 100_000)
    receive(server, 100_000)
    server.sendall(b"yes")
    receive(client, 3)
    open_ = stats.read()
    assert open_["received_bytes"] - before["received_bytes"] == 100_003
    assert 100_003 <= open_["sent_bytes"] - before["sent_bytes"] <= 100_003 + 2  # TCP counts the handshake, too
    client.close()
    server.close()
    after = stats.read()
    assert after["received_bytes"] == open_["received_bytes"]
    assert after["sent_bytes"] == open_["sent_bytes"]


def test_reading_leaves_connections_as_they_are():
    client, server = connection()
    with client, server:
        server.setblocking(False)
        descriptors = set(os.listdir("/proc/self/fd"))
        ProcessStats().read()
        assert set(os.listdir("/proc/self/fd")) == descriptors
        assert os.get_blocking(server.fileno()) is False
        client.sendall(b"still there")
        receive(server, 11)


def test_other_sockets_and_files_are_no_connections():
    pair = socket.socketpair()
    with pair[0], pair[1], socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        before = ProcessStats().read()
        pair[0].sendall(b"x" * 1000)
        datagrams.sendto(b"x" * 1000, ("127.0.0.1", 9))
        assert ProcessStats().read()["sent_bytes"] == before["sent_bytes"]


def test_cpu_time_and_memory_grow_with_their_use():
    stats = ProcessStats()
    before = stats.read()
    block = mmap.mmap(-1, 64 << 20)  # new pages: the heap may have free ones
    for place in range(0, len(block), mmap.PAGESIZE):
        block[place] = 1
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    after = stats.read()
    assert after["cpu_secs"] - before["cpu_secs"] >= 0.2
    assert after["rss_bytes"] - before["rss_bytes"] > 0.9 * len(block)


@pytest.mark.parametrize(
    ("text", "expected"), [("1048576\n", 1048576.0), ("max\n", "machine"), (f"{1 << 62}\n", "machine"), ("", "machine")]
)
def test_the_memory_limit_is_the_smaller_one(tmp_path, monkeypatch, text, expected):
    path = tmp_path / "memory.max"
    path.write_text(text)
    monkeypatch.setattr(process_stats, "_CGROUP_LIMITS", (str(path), str(tmp_path / "missing")))
    machine = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"))
    assert memory_limit() == (machine if expected == "machine" else expected)


def test_cores_are_those_on_which_the_process_may_run():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert available_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert available_cores() == len(before)


def test_threads_of_one_core_and_cores_of_one_processor_are_neighbours(tmp_path, monkeypatch):
    for core, (processor, place) in enumerate([(0, 0), (1, 0), (0, 1), (1, 1), (0, 0), (1, 0), (0, 1), (1, 1)]):
        directory = tmp_path / f"cpu{core}" / "topology"
        directory.mkdir(parents=True)
        (directory / "physical_package_id").write_text(f"{processor}\n")
        (directory / "core_id").write_text(f"{place}\n")
    monkeypatch.setattr(process_stats, "_CORES", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert neighbouring_cores() == [0, 4, 2, 6, 1, 5, 3, 7]
    monkeypatch.setattr(process_stats, "_CORES", str(tmp_path / "missing"))
    assert neighbouring_cores() == list(range(8)), "a system that does not tell"
