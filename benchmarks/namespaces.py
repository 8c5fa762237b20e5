"""Network namespaces: a loopback interface of one's own to count on, and a slow network between tasks.

    with Loopback() as alone:
        [*alone.prefix, "python", …]          # runs where nobody else sends anything
        alone.bytes_sent()
    with Network(["ps:0", "worker:0"], delay_ms=1, mbit=1000) as network:
        network.places                        # task to Place

Root only.  Everything that is made is removed again; the machine's own interfaces are not touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from benchmarks.contenders import Place
from benchmarks.errors import SkippedError
from benchmarks.processes import ROOT, Processes, Program
from ps_train.base.whole_file import write_whole
from tests.support.machine.link import DEVICE


def check_possible() -> None:
    """Raises SkippedError with the reason where namespaces cannot be made."""
    if shutil.which("ip") is None:
        raise SkippedError("network namespaces need the program ip (iproute2)")
    if os.geteuid() != 0:
        raise SkippedError("network namespaces can only be made by root")


def _call(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SkippedError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout


def _bytes_sent(prefix: Sequence[str], device: str) -> int:
    lines = _call(*prefix, "cat", "/proc/net/dev").splitlines()
    counts = next(line for line in lines if line.strip().startswith(f"{device}:"))
    return int(counts.partition(":")[2].split()[8])


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
        return _bytes_sent(self.prefix, "lo")


class Network:
    """A namespace for each task, all joined by a slow wire (`link.py`); with racks, by a wire in each and a core."""

    def __init__(
        self,
        tasks: Sequence[str],
        delay_ms: float,
        mbit: float,
        racks: Mapping[str, str] = MappingProxyType({}),
        core_mbit: float = 0.0,
    ) -> None:
        self._tasks, self._delay_ms, self._mbit = tasks, delay_ms, mbit
        self._racks, self._core_mbit = racks, core_mbit
        self.places: dict[str, Place] = {}

    def __enter__(self) -> Network:
        check_possible()
        if not os.path.exists("/dev/net/tun"):
            raise SkippedError("a slow network needs the kernel's tun devices (/dev/net/tun)")
        self._namespaces = _Namespaces()
        self._wire, self._directory = Processes(ROOT), tempfile.TemporaryDirectory()
        try:
            ends = [self._join(number, task) for number, task in enumerate(self._tasks, start=1)]
            self.pace(self._mbit)
            command = [
                sys.executable,
                "-m",
                "tests.support.machine.link",
                f"--delay_ms={self._delay_ms}",
                f"--mbit={self._mbit}",
            ]
            command.append(f"--mbit_file={self._mbit_file}")
            if self._racks:
                command += [f"--core_mbit={self._core_mbit}", f"--core_file={self._core_file}"]
            wire = self._wire.start(Program("link", [*command, *ends]))
            wire.wait_for(lambda line: line.text == "ready", within_secs=20)
        except BaseException:
            self.__exit__()
            raise
        return self

    def pace(self, mbit: float) -> None:
        """Sets the rate of all senders; it holds within a second."""
        write_whole(self._mbit_file, str(mbit))

    def core_bytes(self) -> int:
        """Returns the bytes that have passed from one rack to another, as of half a second ago."""
        with open(self._core_file) as file:
            return int(file.read())

    @property
    def _core_file(self) -> str:
        return os.path.join(self._directory.name, "core")

    @property
    def _mbit_file(self) -> str:
        return os.path.join(self._directory.name, "mbit")

    def counts(self) -> dict[str, float]:
        """Returns bytes that ps and workers have sent so far, and CPU seconds of the wire itself."""
        sent = {task: _bytes_sent(place.prefix, DEVICE) for task, place in self.places.items()}
        from_ps = sum(count for task, count in sent.items() if task.startswith("ps:"))
        return {
            "from_ps": from_ps,
            "from_workers": sum(sent.values()) - from_ps,
            "wire_cpu_secs": sum(self._wire.cpu_secs().values()),
        }

    def __exit__(self, *error: object) -> None:
        self._wire.__exit__()
        self._directory.cleanup()
        self._namespaces.remove()

    def _join(self, number: int, task: str) -> str:
        """A namespace with a tun device; returns what `link.py` is told of it."""
        own, address = self._namespaces.add(f"t{number}"), f"10.77.0.{number}"
        _call("ip", "-n", own, "tuntap", "add", "dev", DEVICE, "mode", "tun")
        _call("ip", "-n", own, "address", "add", f"{address}/24", "dev", DEVICE)
        # Large packets, as a network card makes small ones of them without the CPU's help.
        _call("ip", "-n", own, "link", "set", DEVICE, "mtu", "65000", "up")
        self.places[task] = Place(address, ("ip", "netns", "exec", own))
        rack = self._racks.get(task)
        return f"{own}={address}" if rack is None else f"{own}={address}={rack}"
