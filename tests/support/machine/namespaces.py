"""Network namespaces as hosts, on one bridge, with their own addresses.  They need root and the program `ip`.

    with hosts("10.79.0.1", "10.79.0.2") as (first, second):
        processes.command([*first.prefix, sys.executable, ...])

A bridge in a namespace of its own joins them, so that no packet leaves them.  All have the loopback interface.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

BRIDGE = "br0"
_numbers = itertools.count(1)

needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="network namespaces need root and the program ip"
)
needs_nft = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("nft") is None, reason="firewall rules need root and the program nft (nftables)"
)


@dataclasses.dataclass(frozen=True)
class Host:
    """A namespace.

    Attributes:
      name: the name for `ip netns`.
      prefix: the words before a command that runs in it.
    """

    name: str

    @property
    def prefix(self) -> list[str]:
        return ["ip", "netns", "exec", self.name]

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Runs a command in it to its end."""
        return subprocess.run([*self.prefix, *command], capture_output=True, text=True, timeout=60)

    def add_address(self, address: str) -> None:
        """Adds an address, such as 11.0.0.1/24, to its interface to the others."""
        _call("ip", "-n", self.name, "address", "add", address, "dev", "eth0", *_no_detection(address))


@contextlib.contextmanager
def hosts(*addresses: str) -> Iterator[list[Host]]:
    """Yields a host for each address (with a prefix length; /24 or /64 if none is given); removes them at the end."""
    with bridged_hosts(*addresses) as (_, found):
        yield found


@contextlib.contextmanager
def bridged_hosts(*addresses: str) -> Iterator[tuple[Host, list[Host]]]:
    """Yields the namespace of the bridge, and the hosts; all packets pass its interface BRIDGE."""
    names: list[str] = []
    try:
        bridge = _add_namespace(names)
        _call("ip", "-n", bridge, "link", "add", BRIDGE, "type", "bridge")
        _call("ip", "-n", bridge, "link", "set", BRIDGE, "up")
        found = []
        for number, address in enumerate(addresses):
            host = Host(_add_namespace(names))
            end = f"port{number}"
            _call("ip", "-n", bridge, "link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", host.name)
            _call("ip", "-n", bridge, "link", "set", end, "master", BRIDGE, "up")
            _call("ip", "-n", host.name, "link", "set", "eth0", "up")
            host.add_address(address if "/" in address else f"{address}/{64 if ':' in address else 24}")
            found.append(host)
        yield Host(bridge), found
    finally:
        for name in reversed(names):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def _add_namespace(names: list[str]) -> str:
    name = f"ps_train_{os.getpid()}_{next(_numbers)}"
    _call("ip", "netns", "add", name)
    names.append(name)
    _call("ip", "-n", name, "link", "set", "lo", "up")
    return name


def _no_detection(address: str) -> list[str]:
    return ["nodad"] if ":" in address else []  # else it can be used only after a second


def _call(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode:
        pytest.skip(f"{' '.join(command)} failed: {done.stderr.strip()}")
