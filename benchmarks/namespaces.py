"""Network namespaces: a loopback interface of one's own to count on, and a slow network between tasks.

    with Loopback() as alone:
        [*alone.prefix, "python", …]          # runs where nobody else sends anything
        alone.bytes_sent()
    with Network(["ps:0", "worker:0"], "delay 1ms rate 1gbit") as network:
        network.places                        # task to Place

Root only.  Everything that is made is removed again; the machine's own interfaces are not touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from benchmarks.contenders import Place
from benchmarks.errors import SkippedError


def check_possible() -> None:
    """Raises SkippedError with the reason where namespaces cannot be made."""
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            raise SkippedError(f"network namespaces need the program {program} (iproute2)")
    if os.geteuid() != 0:
        raise SkippedError("network namespaces can only be made by root")


def _call(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SkippedError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout


class _Namespaces:
    """Named after this process; removed at the end."""

    def __init__(self) -> None:
        self._made: list[str] = []

    def add(self, name: str) -> str:
        full = f"bench{os.getpid()}{name}"
        _call("ip", "netns", "add", full)
        self._made.append(full)
        _call("ip", "-n", full, "link", "set", "lo", "up")
        return full

    def remove(self) -> None:
        for name in self._made:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


class Loopback:
    """A namespace with nothing but a loopback interface."""

    def __enter__(self) -> Loopback:
        check_possible()
        self._namespaces = _Namespaces()
        self._name = self._namespaces.add("lo")
        return self

    def __exit__(self, *error: object) -> None:
        self._namespaces.remove()

    @property
    def prefix(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self._name)

    def bytes_sent(self) -> int:
        """Through the interface so far, with the headers of TCP and IP."""
        lines = _call(*self.prefix, "cat", "/proc/net/dev").splitlines()
        loopback = next(line for line in lines if line.strip().startswith("lo:"))
        return int(loopback.partition(":")[2].split()[0])


class Network:
    """A namespace for each task, all joined by a bridge; `shape`: arguments of tc's netem for what each sends."""

    def __init__(self, tasks: Sequence[str], shape: str) -> None:
        self._tasks, self._shape = tasks, shape
        self.places: dict[str, Place] = {}

    def __enter__(self) -> Network:
        check_possible()
        self._namespaces = _Namespaces()
        try:
            hub = self._namespaces.add("hub")
            _call("ip", "-n", hub, "link", "add", "hub", "type", "bridge")
            _call("ip", "-n", hub, "link", "set", "hub", "up")
            for number, task in enumerate(self._tasks, start=1):
                self._join(hub, number, task)
        except BaseException:
            self._namespaces.remove()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._namespaces.remove()

    def _join(self, hub: str, number: int, task: str) -> None:
        own, address, port = self._namespaces.add(f"t{number}"), f"10.77.0.{number}", f"port{number}"
        _call("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", "net", "netns", own)
        _call("ip", "-n", hub, "link", "set", port, "master", "hub", "up")
        _call("ip", "-n", own, "address", "add", f"{address}/24", "dev", "net")
        _call("ip", "-n", own, "link", "set", "net", "up")
        # A queue long enough for what is under way; a shorter one would drop packets, which is another experiment.
        _call("tc", "-n", own, "qdisc", "add", "dev", "net", "root", "netem", *self._shape.split(), "limit", "20000")
        self.places[task] = Place(address, ("ip", "netns", "exec", own))
