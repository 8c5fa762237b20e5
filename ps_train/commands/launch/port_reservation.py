"""Reservation of free ports of this machine until a task serves on them.

    ports = PortReservation()
    address = ports.reserve()                   # "127.0.0.1:61234"
    ports.sockets[address]                      # bound until the task inherits it, or takes it over by `hold_port`

A task must close its socket before its server can bind the port, so for a moment the port is free.  The kernel does not
give it away in this moment: reserved ports are outside of the range that it takes for outgoing connections.  The socket
is bound on every interface, as TensorFlow's servers are, so that any other use of the port is seen here.  Standard
library only: the launcher uses it.
"""

from __future__ import annotations

import contextlib
import errno
import random
import socket

_EPHEMERAL_PORTS = "/proc/sys/net/ipv4/ip_local_port_range"
_LINUX_DEFAULT = (32768, 60999)
_LOWEST, _HIGHEST = 10_000, 65_535
_FEWEST = 1000
"""The fewest ports to choose among: with less, two jobs would try the same ones too often."""

_MOST_ATTEMPTS = 200


class PortReservation:
    """Reserved ports: each socket stays bound until the task that takes it over starts its server.

    Attributes:
      sockets: the bound socket of each address.
    """

    def __init__(self) -> None:
        self.sockets: dict[str, socket.socket] = {}
        self._addresses: set[str] = set()

    def reserve(self) -> str:
        """Reserves a free port; returns its address, `127.0.0.1:port`."""
        reserved = _bound_socket()
        address = f"127.0.0.1:{reserved.getsockname()[1]}"
        self.sockets[address] = reserved
        self._addresses.add(address)
        return address

    def reserve_again(self, address: str) -> None:
        """Reserves a port for the next process of the same task.

        If another process has taken the port, the task's process will report that.
        """
        if address not in self._addresses:
            return
        with contextlib.suppress(OSError):
            self.sockets[address] = _bound(int(address.rpartition(":")[2]), reuse=True)


def safe_ports() -> range:
    """Returns the ports that the kernel never chooses for an outgoing connection; an empty range if it has no others.

    Those above the kernel's range come first, because no known service has a port there.
    """
    low, high = _ephemeral_ports()
    above, below = range(high + 1, _HIGHEST + 1), range(_LOWEST, low)
    return next((ports for ports in (above, below) if len(ports) >= _FEWEST), range(0))


def _ephemeral_ports() -> tuple[int, int]:
    try:
        with open(_EPHEMERAL_PORTS) as file:
            low, high = map(int, file.read().split())
    except (OSError, ValueError):
        return _LINUX_DEFAULT
    return low, high


def _bound_socket() -> socket.socket:
    ports = safe_ports()
    for _ in range(_MOST_ATTEMPTS if ports else 0):
        try:
            return _bound(random.SystemRandom().choice(ports))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
    return _bound(0)


def _bound(port: int, reuse: bool = False) -> socket.socket:
    """Returns a socket that is bound on every interface, in both families where the machine has both."""
    for family, host in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
        try:
            made = socket.socket(family, socket.SOCK_STREAM)
        except OSError:  # no IPv6
            continue
        try:
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            if reuse:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((host, port))
            return made
        except OSError as error:
            made.close()
            if family == socket.AF_INET or error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise
    raise OSError(errno.EAFNOSUPPORT, "no sockets of the internet")
