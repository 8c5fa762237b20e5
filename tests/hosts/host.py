"""Hosts on one machine: Linux namespaces with an address, a host name, process ids and a file system of their own.

    with Network(tmp_path, processes) as network:
        a, b = network.host("ps-0"), network.host("worker-0")
        process = a.run("--job_name=ps", ...)          # `python -m ps_train` there; a tests.support Process
        network.drop(a, b)                             # what a sends does not reach b
        network.pass_on(a, b)
        a.power_off()                                  # no FIN, no RST, no process left
        a = network.host("ps-0")                       # with the same disk; another address, unless one is given

The hosts share one network.  Packets go through a bridge, or with `delay_ms` through the slow wire of
`tests/support/machine/link.py`; they are dropped by nftables where they arrive.  The namespaces have no names: they end
with the process that holds them, and that one ends with this process, however it ends.

A host sees `Network.disk` as its own disk; the test finds it at `Host.disk`.  Needs root, util-linux, iproute2 and
nftables: `check_possible` skips the test elsewhere.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.support.machine.link import DEVICE
from tests.support.machine.proc import descendants
from tests.support.machine.processes import Process, Processes

_RULES = """
table inet faults {
  set dropped { type ipv4_addr; }
  chain arriving {
    type filter hook prerouting priority -300;
    ip saddr @dropped drop
    LOSS
  }
}
"""
_INIT = """
set -e
hostname "$1"
mount --bind "$2" /etc/hosts
mount $4 "$3"
mount -t tmpfs tmpfs /dev/shm
ip link set lo up
echo ready
exec cat
"""
"""The first process of a host, which ends when its standard input does."""


def check_possible(*programs: str) -> None:
    """Skips the test, with the reason, where hosts cannot be made."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("hosts are network namespaces, which only root can make")
    for program in ("unshare", "nsenter", "ip", "nft", *programs):
        if shutil.which(program) is None:
            pytest.skip(f"hosts need the program {program}")


def _call(*command: str, text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"`{' '.join(command)}` failed: {done.stderr.strip()}"
    return done.stdout


class _Namespaces:
    """A process that holds namespaces, and is the first in its PID namespace.

    Attributes:
      pid: its pid here.
    """

    def __init__(self, script: str, *arguments: str) -> None:
        flags = ["--net", "--uts", "--pid", "--mount", "--fork", "--mount-proc"]
        self._unshare = subprocess.Popen(
            ["unshare", *flags, "sh", "-c", script, "sh", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._unshare.stdout is not None and self._unshare.stderr is not None
        if self._unshare.stdout.readline() != "ready\n":
            pytest.fail(f"no namespaces: {self._unshare.stderr.read()}")
        (self.pid,) = descendants(self._unshare.pid)

    def call(self, *command: str, text: str | None = None) -> str:
        """Runs a command in its network namespace."""
        return _call("nsenter", f"--target={self.pid}", "--net", *command, text=text)

    def end(self) -> None:
        """Kills all processes in it."""
        if self._unshare.poll() is None:
            with open(f"/proc/{self.pid}/ns/pid") as _:  # it is still the process that it was
                os.kill(self.pid, 9)
        self._unshare.wait(20)
        for pipe in (self._unshare.stdin, self._unshare.stdout, self._unshare.stderr):
            assert pipe is not None
            pipe.close()


class Host:
    """One host; made by `Network.host`.

    Attributes:
      name: its host name.
      address: its IPv4 address.
      disk: where the test finds its disk.
      is_on: False after `power_off`.
    """

    def __init__(self, network: Network, name: str, address: str, size: str, disk_of: str) -> None:
        self.name, self.address, self._network, self.is_on = name, address, network, True
        self._own = network.directory / "hosts" / (disk_of or name)
        self._own.mkdir(parents=True, exist_ok=True)
        mount = f"-t tmpfs -o size={size} tmpfs" if size else f"--bind {self._own}"
        arguments = (name, str(network.names), str(network.disk), mount)
        self.namespaces = _Namespaces(_INIT, *arguments)
        self.disk = pathlib.Path(f"/proc/{self.namespaces.pid}/root{network.disk}") if size else self._own

    def run(self, *flags: str, env: dict[str, str] | None = None) -> Process:
        """`python -m ps_train` on this host, in the directory of its disk; with `env` it is a new interpreter."""
        assert self.is_on
        if env is None:
            return self._network.processes.run(*flags, cwd=self._network.disk, host=self.namespaces.pid)
        return self.command([sys.executable, "-m", "ps_train", *flags], env)

    def command(self, command: Sequence[str], env: dict[str, str] | None = None) -> Process:
        """Another command on this host."""
        enter = ["nsenter", f"--target={self.namespaces.pid}", "--net", "--uts", "--pid", "--mount"]
        return self._network.processes.command([*enter, f"--wd={self._network.disk}", *command], env=env)

    def processes(self) -> list[str]:
        """Returns the command lines of the processes that run on this host, without its first one."""
        found = []
        for path in pathlib.Path(f"/proc/{self.namespaces.pid}/root/proc").glob("[0-9]*/cmdline"):
            if path.parent.name != "1":
                found.append(path.read_text().replace("\0", " "))
        return [text for text in found if text]  # a zombie has none

    def power_off(self) -> None:
        """Cuts it off, then kills all of its processes: none of them can tell others of its end."""
        self._network.unplug(self)
        self.end()

    def end(self) -> None:
        """Kills all of its processes; its network and mounts end with them."""
        self.is_on = False
        self.namespaces.end()


class Network:
    """Hosts that reach each other.

    Args:
      directory: for the disks.
      processes: where processes are started.
      delay_ms: of each packet; 0 for a network without a delay.
      loss: share of the packets that are lost.

    Attributes:
      disk: the path at which each host sees its own disk.
      names: the file that every host has as /etc/hosts.
    """

    def __init__(self, directory: pathlib.Path, processes: Processes, delay_ms: float = 0.0, loss: float = 0.0) -> None:
        self.directory, self.processes, self._delay_ms, self._loss = directory, processes, delay_ms, loss
        self.disk, self.names = directory / "disk", directory / "names"
        self._addresses: dict[str, str] = {}
        self._made, self._used = list[Host](), 0
        self._wire: Process | None = None

    def __enter__(self) -> Network:
        check_possible()
        self.disk.mkdir()
        self.names.write_text("")
        self._switch = _Namespaces("ip link add bridge type bridge && ip link set bridge up && echo ready && exec cat")
        return self

    def __exit__(self, *error: object) -> None:
        for host in self._made:
            if host.is_on:
                host.end()
        self._switch.end()

    def host(self, name: str, size: str = "", disk_of: str = "") -> Host:
        """Starts a host at an address that no other has had, for which its name stands from now on.

        Args:
          name: of the host; one that had this name before is off, and its disk is that of the new one.
          size: of a new disk of limited size, such as "1m", which does not outlive the host.
          disk_of: name of a host with which it shares its disk.
        """
        self._used += 1
        address = f"10.77.0.{self._used}"
        self._addresses[name] = address
        self._write_names()
        host = Host(self, name, address, size, disk_of)
        self._made.append(host)
        if self._delay_ms:
            device = DEVICE
            host.namespaces.call("ip", "tuntap", "add", "dev", device, "mode", "tun")
        else:
            device, port, pid = "eth0", f"port{self._used}", str(host.namespaces.pid)
            self._switch.call("ip", "link", "add", port, "type", "veth", "peer", "name", device, "netns", pid)
            self._switch.call("ip", "link", "set", port, "master", "bridge", "up")
        host.namespaces.call("ip", "address", "add", f"{address}/24", "dev", device)
        # A slow wire in user space would be too slow for small packets.
        host.namespaces.call("ip", "link", "set", device, *(["mtu", "65000"] if self._delay_ms else []), "up")
        loss = f'iifname "{device}" numgen random mod 10000 < {round(self._loss * 10_000)} drop' if self._loss else ""
        host.namespaces.call("nft", "-f", "-", text=_RULES.replace("LOSS", loss))
        return host

    def connect(self) -> None:
        """Starts the slow wire, when all hosts are there; a network without a delay needs no call."""
        if not self._delay_ms:
            return
        ends = [f"/proc/{host.namespaces.pid}/ns/net={host.address}" for host in self._made]
        command = [
            sys.executable,
            "-m",
            "tests.support.machine.link",
            f"--delay_ms={self._delay_ms}",
            "--mbit=1000",
            *ends,
        ]
        self._wire = self.processes.command(command)
        self._wire.wait_for("ready", 20)

    def drop(self, sender: Host, *receivers: Host) -> None:
        """Drops what the sender sends, where it arrives."""
        for receiver in receivers:
            receiver.namespaces.call("nft", "add", "element", "inet", "faults", "dropped", f"{{ {sender.address} }}")

    def pass_on(self, sender: Host, *receivers: Host) -> None:
        """Ends `drop`."""
        for receiver in receivers:
            if receiver.is_on:
                element = f"{{ {sender.address} }}"
                receiver.namespaces.call("nft", "delete", "element", "inet", "faults", "dropped", element)

    def others(self, host: Host) -> list[Host]:
        """Returns the other hosts that are on."""
        return [other for other in self._made if other.is_on and other is not host]

    def part(self, host: Host) -> None:
        """Cuts a host off from all others, both ways."""
        for other in self.others(host):
            self.drop(host, other)
            self.drop(other, host)

    def join(self, host: Host) -> None:
        """Ends `part`."""
        for other in self.others(host):
            self.pass_on(host, other)
            self.pass_on(other, host)

    def unplug(self, host: Host) -> None:
        """Takes the cable out."""
        number = host.address.rpartition(".")[2]
        self._switch.call("ip", "link", "delete", f"port{number}")

    def _write_names(self) -> None:
        """Rewrites the file in place, since it is mounted in each host; a reader never sees a part of it."""
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in self._addresses.items())]
        with open(self.names, "r+") as file:
            file.write("\n".join(lines).ljust(4000) + "\n")
