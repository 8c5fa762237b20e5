"""A slow wire in user space, for kernels without netem: packets between namespaces, delayed and paced.

    python -m tests.support.machine.link --delay_ms=1 --mbit=1000 NAMESPACE=10.77.0.1 NAMESPACE=10.77.0.2

A namespace is a name of `ip netns`, or a path such as /proc/4711/ns/net.  It has a tun device `net` already.  A packet
is handed on `delay_ms` after its last bit could have left its sender, who sends `mbit` a second.  Nothing is lost or
reordered.  With --mbit_file the rate is what that file says, which may change at any time.

With NAMESPACE=ADDRESS=RACK a packet to another rack also passes the sender's rack's way into the core, which carries
--core_mbit a second.  --core_file then gets the bytes that have passed it.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import dataclasses
import fcntl
import os
import select
import socket
import struct
import time

from ps_train.base.whole_file import write_whole

DEVICE = "net"
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000
_LARGEST_PACKET = 1 << 16
_IDLE_SECS, _RATE_SECS = 1.0, 0.5


@dataclasses.dataclass
class Pace:
    """When the packets of one sender arrive; pure."""

    delay: float
    bytes_per_sec: float
    free_at: float = 0.0

    def arrival(self, now: float, size: int) -> float:
        self.free_at = max(now, self.free_at) + size / self.bytes_per_sec
        return self.free_at + self.delay


class Core:
    """The ways of racks into the core; pure.

    Args:
      bytes_per_sec: of each rack; 0: no limit.

    Attributes:
      bytes: that have passed from one rack to another.
    """

    def __init__(self, bytes_per_sec: float) -> None:
        self._bytes_per_sec, self._free_at, self.bytes = bytes_per_sec, dict[str, float](), 0

    def arrival(self, at: float, size: int, rack: str) -> float:
        """When a packet has left the rack, which is at its way into the core at that time."""
        self.bytes += size
        if not self._bytes_per_sec:
            return at
        self._free_at[rack] = max(at, self._free_at.get(rack, 0.0)) + size / self._bytes_per_sec
        return self._free_at[rack]


@dataclasses.dataclass
class _End:
    """One namespace's end of the wire, and the packets that it has sent and nobody has got yet, in order: those to its
    own rack, and those to other racks."""

    device: int
    pace: Pace
    rack: str = ""
    under_way: collections.deque[tuple[float, bytes]] = dataclasses.field(default_factory=collections.deque)
    far: collections.deque[tuple[float, bytes]] = dataclasses.field(default_factory=collections.deque)


def main() -> None:
    parser = argparse.ArgumentParser(description="A slow wire between network namespaces.")
    parser.add_argument("--delay_ms", type=float, required=True)
    parser.add_argument("--mbit", type=float, required=True)
    parser.add_argument("--mbit_file", default="", help="a file with the present rate, in place of --mbit")
    parser.add_argument("--core_mbit", type=float, default=0.0, help="between racks; 0: as inside them")
    parser.add_argument("--core_file", default="", help="a file for the bytes between racks")
    parser.add_argument("ends", nargs="+", metavar="NAMESPACE=ADDRESS[=RACK]")
    arguments = parser.parse_args()
    ends = {}
    for text in arguments.ends:
        namespace, address, rack = (*text.split("="), "")[:3]
        pace = Pace(arguments.delay_ms / 1000, arguments.mbit * 1e6 / 8)
        ends[socket.inet_aton(address)] = _End(_attach(namespace), pace, rack)
    core = Core(arguments.core_mbit * 1e6 / 8)
    print("ready", flush=True)
    checked = 0.0
    while True:
        _turn(ends, core)
        if time.monotonic() <= checked + _RATE_SECS:
            continue
        checked = time.monotonic()
        if arguments.core_file:
            write_whole(arguments.core_file, str(core.bytes))
        if arguments.mbit_file:
            with open(arguments.mbit_file) as file:
                rate = float(file.read()) * 1e6 / 8
            for end in ends.values():
                end.pace.bytes_per_sec = rate


def _attach(namespace: str) -> int:
    """The tun device of a namespace; this process stays in it, which does not matter to devices attached before."""
    libc = ctypes.CDLL(None, use_errno=True)
    # A name of `ip netns`, or the path of a namespace.
    place = os.open(os.path.join("/run/netns", namespace), os.O_RDONLY)
    if libc.setns(place, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"cannot enter namespace {namespace}")
    os.close(place)
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


def _turn(ends: dict[bytes, _End], core: Core) -> None:
    """Takes what was sent, hands on what is due; sleeps until one or the other."""
    heads = [queue[0][0] for end in ends.values() for queue in (end.under_way, end.far) if queue]
    timeout = max(0.0, min(heads) - time.monotonic()) if heads else _IDLE_SECS
    readable, _, _ = select.select([end.device for end in ends.values()], [], [], timeout)
    now = time.monotonic()
    for end in ends.values():
        if end.device in readable:
            packet = os.read(end.device, _LARGEST_PACKET)
            target = ends.get(packet[16:20])  # IPv4's destination; others (IPv6's greetings) go nowhere
            at = end.pace.arrival(now, len(packet))
            if target is not None and target.rack != end.rack:
                end.far.append((core.arrival(at, len(packet), end.rack), packet))
            else:
                end.under_way.append((at, packet))
        for queue in (end.under_way, end.far):
            while queue and queue[0][0] <= now:
                _, packet = queue.popleft()
                target = ends.get(packet[16:20])
                if target is not None and packet[0] >> 4 == 4:
                    os.write(target.device, packet)


if __name__ == "__main__":
    main()
