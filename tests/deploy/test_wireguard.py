"""The WireGuard configurations of deploy/wireguard: real tunnels between network namespaces where this is possible."""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.machine.fork_server import ROOT
from tests.support.machine.net_hosts import NetHosts, missing, net_hosts, wait_for_port
from tests.support.machine.processes import Processes, eventually

FLAGS = "--ps_hosts=10.98.0.1:2222\n--worker_hosts=10.98.0.2:2222,10.98.0.2:2223\n--max_steps=3\n"
needs_wg = pytest.mark.skipif(shutil.which("wg") is None, reason="the program wg is missing (wireguard-tools)")


def generate(directory: pathlib.Path, *options: str, flags: str = FLAGS) -> subprocess.CompletedProcess[str]:
    (directory / "job.flags").write_text(flags)
    command = [sys.executable, str(ROOT / "deploy/wireguard/wireguard.py"), f"--flagfile={directory / 'job.flags'}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [*command, f"--out={directory / 'wg'}", *options], capture_output=True, text=True, env=environment
    )


@needs_wg
def test_each_host_gets_its_key_the_others_as_peers_and_the_tasks_get_inner_addresses(tmp_path: pathlib.Path) -> None:
    assert generate(tmp_path).returncode == 0
    first, second = ((tmp_path / "wg" / f"10.98.0.{n}.conf") for n in (1, 2))
    assert stat.S_IMODE(first.stat().st_mode) == 0o600
    key = second.read_text().partition("PrivateKey = ")[2].partition("\n")[0]
    public = subprocess.run(["wg", "pubkey"], input=key, capture_output=True, text=True, check=True).stdout.strip()
    assert f"PublicKey = {public}\nAllowedIPs = 10.77.0.2/32\nEndpoint = 10.98.0.2:51820" in first.read_text()
    assert key not in first.read_text()
    flags = (tmp_path / "wg/wireguard.flags").read_text()
    assert "--ps_hosts=10.77.0.1:2222\n--worker_hosts=10.77.0.2:2222,10.77.0.2:2223\n" in flags


@needs_wg
def test_a_host_keeps_its_key_and_address_when_others_come(tmp_path: pathlib.Path) -> None:
    assert generate(tmp_path).returncode == 0
    before = (tmp_path / "wg/10.98.0.2.conf").read_text().partition("ListenPort")[0]
    assert generate(tmp_path, flags=FLAGS.replace("10.98.0.1:2222", "10.98.0.0:1,10.98.0.1:2222")).returncode == 0
    assert (tmp_path / "wg/10.98.0.2.conf").read_text().startswith(before)
    assert "Address = 10.77.0.3/24" in (tmp_path / "wg/10.98.0.0.conf").read_text()


@needs_wg
def test_a_host_that_was_away_gets_the_address_that_it_had(tmp_path: pathlib.Path) -> None:
    hosts = [f"--ps_hosts=a:1\n--worker_hosts={workers}\n" for workers in ("b:1", "c:1", "b:1,c:1")]
    assert [generate(tmp_path, flags=flags).returncode for flags in hosts] == [0, 0, 0]
    assert "--worker_hosts=10.77.0.2:1,10.77.0.3:1\n" in (tmp_path / "wg/wireguard.flags").read_text()
    (tmp_path / "wg/c.conf").write_text((tmp_path / "wg/b.conf").read_text())
    done = generate(tmp_path, flags=hosts[0])
    assert done.returncode == 2 and "b and c have the same address, 10.77.0.2" in done.stderr


@needs_wg
@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--network=8.8.8.0/24"], "private network"),
        (["--network=127.0.0.0/24"], "private network"),
        (["--network=0.0.0.0/8"], "private network"),
        (["--network=240.0.0.0/24"], "private network"),
        (["--network=10.0.0.0/32", "--port=1"], "too small"),
        (["--network=ten"], "network is not valid"),
        (["--port=70000"], "1 to 65535"),
    ],
)
def test_a_wrong_argument_is_one_line(tmp_path: pathlib.Path, options: list[str], text: str) -> None:
    done = generate(tmp_path, *options)
    assert done.returncode == 2 and text in done.stderr and done.stderr.count("\n") == 1


@needs_wg
def test_a_key_that_others_can_read_is_refused(tmp_path: pathlib.Path) -> None:
    generate(tmp_path)
    (tmp_path / "wg/10.98.0.1.conf").chmod(0o644)
    done = generate(tmp_path)
    assert done.returncode == 2 and "chmod 600" in done.stderr


WHY_NOT = missing("wg", "wg-quick", "tcpdump", "ss")


@pytest.fixture
def hosts(processes: Processes) -> Iterator[NetHosts]:
    with net_hosts(processes, {"one": "10.98.0.1", "two": "10.98.0.2"}) as found:
        yield found
    for number in (1, 2):
        socket_of(number).unlink(missing_ok=True)


def socket_of(number: int) -> pathlib.Path:
    """The socket of a wireguard-go, in a directory of the whole machine; it has the name of the interface."""
    return pathlib.Path(f"/var/run/wireguard/wg{number}{os.getpid() % 100000}.sock")


def bring_up(hosts: NetHosts, host: str, config: pathlib.Path) -> None:
    """What `wg-quick up wg0` does, but for its changes of the whole machine's routes."""
    kernel = subprocess.run(
        ["ip", "-n", hosts.namespace(host), "link", "add", "wg0", "type", "wireguard"], capture_output=True
    )
    if kernel.returncode:
        if shutil.which("wireguard-go") is None or not pathlib.Path("/dev/net/tun").exists():
            pytest.skip("neither the kernel's WireGuard nor wireguard-go with /dev/net/tun")
        socket = socket_of(int(config.stem[-1]))
        name = socket.stem
        hosts.start(host, "env", "LOG_LEVEL=error", "WG_PROCESS_FOREGROUND=1", "wireguard-go", "-f", name)
        eventually(socket.exists, 20, f"the socket of {name}")
    else:
        name = "wg0"
    stripped = config.with_name(f"{name}.conf")
    shutil.copy(config, stripped)
    plain = config.with_name(f"{name}.stripped")
    plain.write_text(subprocess.run(["wg-quick", "strip", stripped], capture_output=True, text=True, check=True).stdout)
    hosts.run(host, "wg", "setconf", name, str(plain))
    address = config.read_text().partition("Address = ")[2].partition("\n")[0]
    hosts.run(host, "ip", "address", "add", address, "dev", name)
    hosts.run(host, "ip", "link", "set", name, "up")


SERVER = """
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(self.request.recv(1000))
socketserver.TCPServer(("0.0.0.0", 2222), Echo).serve_forever()
"""
CLIENT = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 2222), timeout=30)
connection.sendall(b"THE-PLAINTEXT-OF-A-PARAMETER")
print(connection.recv(1000).decode())
"""


@pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "they are there")
def test_what_hosts_send_to_inner_addresses_is_encrypted(hosts: NetHosts, tmp_path: pathlib.Path) -> None:
    assert generate(tmp_path).returncode == 0
    for number, host in enumerate(("one", "two"), 1):
        bring_up(hosts, host, tmp_path / "wg" / f"10.98.0.{number}.conf")
    hosts.python("one", "-c", SERVER)
    wait_for_port(hosts, "one", 2222)
    sent = {}
    for address in ("10.98.0.1", "10.77.0.1"):
        with hosts.packets(tmp_path / address):
            client = hosts.python("two", "-c", CLIENT, address)
            assert client.wait(40) == 0 and "THE-PLAINTEXT" in client.output, client.output
        sent[address] = (tmp_path / address).read_bytes()
    assert b"THE-PLAINTEXT" in sent["10.98.0.1"]  # without WireGuard the packets show it
    assert b"THE-PLAINTEXT" not in sent["10.77.0.1"] and len(sent["10.77.0.1"]) > 500
