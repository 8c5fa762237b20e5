"""Hosts that are network namespaces on one switch: own addresses, names and firewalls, and packets that can be read."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.support.processes import Process, Processes, eventually

NAMES_DIRECTORY = pathlib.Path("/etc/netns")
"""Where `ip netns exec` finds the files that a namespace has in the place of those in /etc."""


def missing(*programs: str) -> str:
    """The reason why there can be no such hosts, "" if there can."""
    if os.geteuid():
        return "network namespaces need root"
    absent = [program for program in ("ip", *programs) if shutil.which(program) is None]
    if absent:
        return f"these programs are missing: {', '.join(absent)}"
    name = f"try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True)
    return f"no network namespaces: {made.stderr.strip()}" if made.returncode else ""


class NetHosts:
    """Namespaces; `names` are host names with an address each, which all of them know."""

    def __init__(self, processes: Processes, addresses: dict[str, str]) -> None:
        self._processes, self.addresses = processes, addresses
        self._mark = f"ps{os.getpid()}"
        self._made: list[str] = []
        self._switch = self._add("switch")
        run("ip", "-n", self._switch, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", self._switch, "link", "set", "bridge", "up")
        for name, address in addresses.items():
            self._plug_in(name, address)

    def _add(self, name: str) -> str:
        namespace = f"{self._mark}-{name}"
        run("ip", "netns", "add", namespace)
        self._made.append(namespace)
        run("ip", "-n", namespace, "link", "set", "lo", "up")
        return namespace

    def _plug_in(self, name: str, address: str) -> None:
        namespace = self._add(name)
        port = f"to-{name}"[:15]
        run("ip", "-n", self._switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        run("ip", "-n", self._switch, "link", "set", port, "master", "bridge", "up")
        run("ip", "-n", namespace, "link", "set", "eth0", "up")
        bits = ["64", "nodad"] if ":" in address else ["24"]
        run("ip", "-n", namespace, "address", "add", f"{address}/{bits[0]}", "dev", "eth0", *bits[1:])
        names = NAMES_DIRECTORY / namespace
        names.mkdir(parents=True)
        lines = [f"{other} {host}" for host, other in self.addresses.items()]
        (names / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))

    def namespace(self, host: str) -> str:
        return f"{self._mark}-{host}"

    def start(self, host: str, *command: str) -> Process:
        return self._processes.command(["ip", "netns", "exec", self.namespace(host), *command])

    def python(self, host: str, *arguments: str) -> Process:
        return self.start(host, sys.executable, *arguments)

    def run(self, host: str, *command: str) -> str:
        return run("ip", "netns", "exec", self.namespace(host), *command)

    def listens(self, host: str, port: int) -> bool:
        time.sleep(0.2)  # a process is started to look
        return f":{port} " in self.run(host, "ss", "-Hltn")

    @contextlib.contextmanager
    def packets(self, path: pathlib.Path) -> Iterator[None]:
        """Writes all packets on the switch to a file."""
        command = ["tcpdump", "-i", "bridge", "-U", "--immediate-mode", "-s", "0", "-Z", "root", "-w", str(path)]
        reader = self.start("switch", *command)
        reader.wait_for("listening on")
        try:
            yield
        finally:
            reader.send(2)
            reader.wait()

    def end(self) -> None:
        for namespace in reversed(self._made):
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)
            shutil.rmtree(NAMES_DIRECTORY / namespace, ignore_errors=True)
        with contextlib.suppress(OSError):
            NAMES_DIRECTORY.rmdir()  # where nothing else is in it


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


@contextlib.contextmanager
def net_hosts(processes: Processes, addresses: dict[str, str]) -> Iterator[NetHosts]:
    hosts = NetHosts.__new__(NetHosts)
    try:
        hosts.__init__(processes, addresses)  # type: ignore[misc]
        yield hosts
    finally:
        processes.end()
        hosts.end()


def wait_for_port(hosts: NetHosts, host: str, port: int) -> None:
    eventually(lambda: hosts.listens(host, port), 60, f"a listener on port {port} of {host}")
