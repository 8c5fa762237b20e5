"""A slow wire in user space, for kernels without netem: packets between namespaces, delayed and paced.

    python -m benchmarks.link --delay_ms=1 --mbit=1000 NAMESPACE=10.77.0.1 NAMESPACE=10.77.0.2

A namespace is a name of `ip netns`, or a path such as /proc/4711/ns/net.  It has a tun device `net` already.  A packet
is handed on `delay_ms` after its last bit could have left its sender, who sends `mbit` a second.  Nothing is lost or
reordered.  With --mbit_file the rate is what that file says, which may change at any time.
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


@dataclasses.dataclass
class _End:
    """One namespace's end of the wire, and the packets that it has sent and nobody has got yet, in order."""

    device: int
    pace: Pace
    under_way: collections.deque[tuple[float, bytes]] = dataclasses.field(default_factory=collections.deque)


def main() -> None:
    parser = argparse.ArgumentParser(description="A slow wire between network namespaces.")
    parser.add_argument("--delay_ms", type=float, required=True)
    parser.add_argument("--mbit", type=float, required=True)
    parser.add_argument("--mbit_file", default="", help="a file with the present rate, in place of --mbit")
    parser.add_argument("ends", nargs="+", metavar="NAMESPACE=ADDRESS")
    arguments = parser.parse_args()
    ends = {}
    for text in arguments.ends:
        namespace, _, address = text.partition("=")
        pace = Pace(arguments.delay_ms / 1000, arguments.mbit * 1e6 / 8)
        ends[socket.inet_aton(address)] = _End(_attach(namespace), pace)
    print("ready", flush=True)
    checked = 0.0
    while True:
        _turn(ends)
        if arguments.mbit_file and time.monotonic() > checked + _RATE_SECS:
            checked = time.monotonic()
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


def _turn(ends: dict[bytes, _End]) -> None:
    """Takes what was sent, hands on what is due; sleeps until one or the other."""
    heads = [end.under_way[0][0] for end in ends.values() if end.under_way]
    timeout = max(0.0, min(heads) - time.monotonic()) if heads else _IDLE_SECS
    readable, _, _ = select.select([end.device for end in ends.values()], [], [], timeout)
    now = time.monotonic()
    for end in ends.values():
        if end.device in readable:
            packet = os.read(end.device, _LARGEST_PACKET)
            end.under_way.append((end.pace.arrival(now, len(packet)), packet))
        while end.under_way and end.under_way[0][0] <= now:
            _, packet = end.under_way.popleft()
            target = ends.get(packet[16:20])  # IPv4's destination; others (IPv6's greetings) go nowhere
            if target is not None and packet[0] >> 4 == 4:
                os.write(target.device, packet)


if __name__ == "__main__":
    main()
