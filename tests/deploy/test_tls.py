"""Tunnels of deploy/tls between hosts that are network namespaces, with real jobs, packets and certificates."""

from __future__ import annotations

import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from ps_train.base.console import PROGRESS_BEGINS
from tests.support.machine import tls_probe
from tests.support.machine.fork_server import ROOT
from tests.support.machine.net_hosts import NetHosts, missing, net_hosts, wait_for_port
from tests.support.machine.processes import Process, Processes, eventually
from tests.support.models import small

WHY_NOT = missing("stunnel", "openssl", "tcpdump", "nft", "ss")
pytestmark = [
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "they are there"),
    pytest.mark.xdist_group("net_hosts"),
]

ADDRESSES = {"ps-a": "10.99.0.1", "worker-b": "10.99.0.2", "worker-c": "10.99.0.3", "stranger": "10.99.0.9"}
PORT, PS_PORT, C_PORT = 2222, 21000, 21002
FLAGS = f"""
--ps_hosts=ps-a:{PORT}
--worker_hosts=worker-b:{PORT},worker-c:{PORT}
--model=tests.support.models.small:Marked
--update=sync
--max_steps=30
--batch_size=8
--startup_timeout_secs=60
"""
NOTHING = "received 0 bytes"
TASKS = {"ps-a": ("ps", 0), "worker-b": ("worker", 0), "worker-c": ("worker", 1)}


def ca(*arguments: object) -> str:
    command = [sys.executable, str(ROOT / "deploy/tls/ca.py"), *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


class Network:
    """The hosts of a job, its CA, its flagfile, and the CA of a stranger."""

    def __init__(self, hosts: NetHosts, directory: pathlib.Path) -> None:
        self.hosts, self.directory, self.uses_tunnels = hosts, directory, True
        self.flagfile = directory / "job.flags"
        self.flagfile.write_text(FLAGS)
        for name in ("pki", "foreign"):
            ca("init", directory / name)
        for host in (*TASKS, "stranger"):
            ca("issue", directory / "pki", host)
        ca("issue", directory / "foreign", "worker-b")

    def keys(self, host: str, pki: str = "pki") -> pathlib.Path:
        return self.directory / pki / "hosts" / host

    def tunnels(self, host: str) -> pathlib.Path:
        return self.directory / f"tunnels-{host}"

    def lay_tunnels(self) -> dict[str, Process]:
        """Firewall and stunnel on each host."""
        started = {}
        for host in TASKS:
            script = str(ROOT / "deploy/tls/tunnels.py")
            options = [f"--flagfile={self.flagfile}", f"--keys={self.keys(host)}", f"--out={self.tunnels(host)}"]
            self.hosts.run(host, sys.executable, script, f"--host={host}", *options)
            self.hosts.run(host, "nft", "-f", str(self.tunnels(host) / "tunnels.nft"))
            started[host] = self.hosts.start(host, "stunnel", str(self.tunnels(host) / "stunnel.conf"))
        for host in TASKS:
            wait_for_port(self.hosts, host, PORT)
        return started

    def start_task(self, host: str, model_dir: pathlib.Path, *flags: str) -> Process:
        job_name, index = TASKS[host]
        tunnels = self.tunnels(host) / "tunnels.flags"
        files = [self.flagfile, *([tunnels] if tunnels.exists() and self.uses_tunnels else [])]
        own = [f"--job_name={job_name}", f"--task_index={index}", f"--model_dir={model_dir}"]
        return self.hosts.python(host, "-m", "ps_train", *(f"--flagfile={file}" for file in files), *own, *flags)

    def train(self, name: str, *flags: str) -> tuple[pathlib.Path, bytes]:
        """Trains; returns the last checkpoint and all packets."""
        capture, model_dir = self.directory / f"{name}.pcap", self.directory / name
        with self.hosts.packets(capture):
            tasks = [self.start_task(host, model_dir, *flags) for host in reversed(TASKS)]  # the ps comes last
            for task in tasks:
                assert task.wait(120) == 0, task.output
        return model_dir / "model.ckpt-30", capture.read_bytes()

    def received(self, host: str, to: str, port: int, keys: object = "") -> str:
        """The line of a client on a host about what a port has given to it."""
        probe = self.hosts.python(host, tls_probe.__file__, to, str(port), str(keys))
        assert probe.wait(30) == 0, probe.output
        return probe.output


@pytest.fixture
def network(processes: Processes, tmp_path: pathlib.Path) -> Iterator[Network]:
    with net_hosts(processes, ADDRESSES) as hosts:
        yield Network(hosts, tmp_path)


def values_of(path: pathlib.Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(path))
    return {
        key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map() if not key.startswith("ps_train/")
    }


def test_a_job_trains_through_tunnels_to_the_same_values_and_no_parameter_is_readable(network: Network) -> None:
    plain, packets = network.train("plain")
    assert packets.count(small.MARKER[:36]) > 30  # in each step of two workers: packets do show parameters
    network.lay_tunnels()
    tunnelled, hidden = network.train("tunnelled")
    assert len(hidden) > len(packets) / 2  # the same traffic
    assert small.MARKER[:16] not in hidden and b"HTTP/2.0" not in hidden
    expected, found = values_of(plain), values_of(tunnelled)
    assert expected.keys() == found.keys() and "marker" in found
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value, key)


def test_a_ps_that_was_killed_comes_back_behind_its_tunnel(network: Network) -> None:
    network.lay_tunnels()
    capture, model_dir = network.directory / "back.pcap", network.directory / "back"
    flags = ["--max_steps=3000", "--update=async", "--log_secs=0.2"]
    with network.hosts.packets(capture):
        chief, other, ps = (network.start_task(host, model_dir, *flags) for host in ("worker-b", "worker-c", "ps-a"))
        chief.wait_for(PROGRESS_BEGINS)
        ps.send(signal.SIGKILL)
        chief.wait_for("lost ps:0")
        ps = network.start_task("ps-a", model_dir, *flags)
        for task in (chief, other, ps):
            assert task.wait(180) == 0, task.output
    assert "restored" in chief.output
    assert int(tf.train.load_checkpoint(str(model_dir)).get_tensor("global_step")) == 3000
    assert small.MARKER[:16] not in capture.read_bytes()


ECHO = """
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(self.request.recv(1 << 16))
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("0.0.0.0", {port}), Echo).serve_forever()
"""
"""A server in the place of a task's: it listens on every interface too, and answers whatever it is sent."""


def start_echo(network: Network, host: str, port: int) -> None:
    network.hosts.python(host, "-c", ECHO.format(port=port))
    wait_for_port(network.hosts, host, port)


def test_only_the_certificate_of_a_member_opens_a_tunnel(network: Network) -> None:
    stunnels = network.lay_tunnels()
    start_echo(network, "ps-a", PS_PORT)
    start_echo(network, "worker-c", C_PORT)
    member, other = network.keys("worker-b"), network.keys("worker-c")
    assert NOTHING not in network.received("worker-b", "ps-a", PORT, member)
    for keys in ("", network.keys("worker-b", "foreign"), network.keys("stranger"), "plain"):
        assert NOTHING in network.received("worker-b", "ps-a", PORT, keys), keys
    # A member reaches what its tasks need: a worker needs no other worker.
    assert NOTHING not in network.received("ps-a", "worker-c", PORT, network.keys("ps-a"))
    assert NOTHING in network.received("ps-a", "worker-c", PORT, member)
    # After a revocation and a signal to stunnel a certificate opens nothing; the others do.
    stolen = network.directory / "stolen"
    shutil.copytree(member, stolen)
    ca("revoke", network.directory / "pki", "worker-b")
    stunnels["ps-a"].send(signal.SIGHUP)
    eventually(lambda: stunnels["ps-a"].output.count("Configuration successful") == 2, 30, "the new configuration")
    assert NOTHING in network.received("worker-b", "ps-a", PORT, stolen)
    assert NOTHING not in network.received("worker-b", "ps-a", PORT, other)


def test_a_tunnel_does_not_lead_to_another_host_than_the_one_it_names(network: Network) -> None:
    network.lay_tunnels()
    start_echo(network, "ps-a", PS_PORT)
    assert NOTHING not in network.received("worker-b", "127.0.0.1", PS_PORT, "plain")  # through the tunnel
    config = network.tunnels("worker-b") / "stunnel.conf"
    text = config.read_text()
    redirected = text.replace(f"127.0.0.1:{PS_PORT}", "127.0.0.1:20000").replace(f"ps-a:{PORT}", f"worker-c:{PORT}")
    # Only the clients: worker-b's own ports are taken.
    config.with_name("other.conf").write_text(
        redirected[: redirected.index("[")] + redirected[redirected.index("[to") :]
    )
    start_echo(network, "worker-c", C_PORT)
    network.hosts.run("worker-c", "nft", "flush", "ruleset")  # a host of a stranger would not refuse it
    lured = network.hosts.start("worker-b", "stunnel", str(config.with_name("other.conf")))
    wait_for_port(network.hosts, "worker-b", 20000)
    assert NOTHING in network.received("worker-b", "127.0.0.1", 20000, "plain")
    lured.wait_for("CERT: Subject checks failed")


def test_the_firewall_closes_the_ports_of_tasks_and_admits_members_to_tunnels(network: Network) -> None:
    start_echo(network, "ps-a", PS_PORT)
    assert NOTHING not in network.received("stranger", "ps-a", PS_PORT, "plain")  # as TensorFlow's server would be
    network.lay_tunnels()
    member = network.keys("worker-b")
    for host, port in (("stranger", PS_PORT), ("worker-b", PS_PORT), ("stranger", PORT)):
        assert f"{NOTHING}: timed out" in network.received(host, "ps-a", port, "plain" if port == PS_PORT else member)
    assert NOTHING not in network.received("worker-b", "ps-a", PORT, member)
    # The rules can be loaded again, and removed.
    rules = network.tunnels("ps-a") / "tunnels.nft"
    network.hosts.run("ps-a", "nft", "-f", str(rules))
    assert network.hosts.run("ps-a", "nft", "list", "tables").split() == ["table", "inet", "ps_train_tls_21000"]
    network.hosts.run("ps-a", "nft", "delete", "table", "inet", "ps_train_tls_21000")
    assert NOTHING not in network.received("stranger", "ps-a", PS_PORT, "plain")
