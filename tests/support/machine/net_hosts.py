"""Hosts that are network namespaces with names: all know each other's, and what they send each other can be read."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.support.machine.namespaces import BRIDGE, Host, bridged_hosts
from tests.support.machine.processes import Process, Processes, eventually

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
    """Made by `net_hosts`.

    Attributes:
      addresses: host name to address.
    """

    def __init__(self, processes: Processes, addresses: dict[str, str], bridge: Host, hosts: dict[str, Host]) -> None:
        self._processes, self.addresses, self._bridge, self._hosts = processes, addresses, bridge, hosts
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in addresses.items()), ""]
        for host in hosts.values():
            (NAMES_DIRECTORY / host.name).mkdir(parents=True)
            (NAMES_DIRECTORY / host.name / "hosts").write_text("\n".join(lines))

    def namespace(self, host: str) -> str:
        return self._hosts[host].name

    def start(self, host: str, *command: str) -> Process:
        return self._processes.command([*self._hosts[host].prefix, *command])

    def python(self, host: str, *arguments: str) -> Process:
        return self.start(host, sys.executable, *arguments)

    def run(self, host: str, *command: str) -> str:
        done = self._hosts[host].run(*command)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def listens(self, host: str, port: int) -> bool:
        time.sleep(0.2)  # a process is started to look
        return f":{port} " in self.run(host, "ss", "-Hltn")

    @contextlib.contextmanager
    def packets(self, path: pathlib.Path) -> Iterator[None]:
        """Writes all packets between the hosts to a file."""
        command = ["tcpdump", "-i", BRIDGE, "-U", "--immediate-mode", "-s", "0", "-Z", "root", "-w", str(path)]
        reader = self._processes.command([*self._bridge.prefix, *command])
        reader.wait_for("listening on")
        try:
            yield
        finally:
            reader.send(2)
            reader.wait()

    def forget_names(self) -> None:
        for host in self._hosts.values():
            shutil.rmtree(NAMES_DIRECTORY / host.name, ignore_errors=True)
        with contextlib.suppress(OSError):
            NAMES_DIRECTORY.rmdir()  # where nothing else is in it


@contextlib.contextmanager
def net_hosts(processes: Processes, addresses: dict[str, str]) -> Iterator[NetHosts]:
    """Yields hosts with the names and addresses; ends all processes and removes the hosts at the end."""
    with bridged_hosts(*addresses.values()) as (bridge, found):
        hosts = NetHosts(processes, addresses, bridge, dict(zip(addresses, found, strict=True)))
        try:
            yield hosts
        finally:
            processes.end()
            hosts.forget_names()


def wait_for_port(hosts: NetHosts, host: str, port: int) -> None:
    eventually(lambda: hosts.listens(host, port), 60, f"a listener on port {port} of {host}")
