"""Checks of this process's port: it is free, its host is this machine, and the name of the process that holds it.

    check_port(Address("localhost", 2222), Task("ps", 0))     # raises ConfigError that names the holder

Imports no TensorFlow, so that a busy port is reported at once.
"""

from __future__ import annotations

import errno
import glob
import logging
import os
import socket
from collections.abc import Mapping

from ps_train.base.errors import ConfigError
from ps_train.cluster.addresses.cluster import Address
from ps_train.config.job import HELD_PORT_VARIABLE, Task

log = logging.getLogger(__name__)

_held: dict[int, socket.socket] = {}
"""Ports of this process, and the sockets that hold them."""


def check_port(address: Address, task: Task) -> None:
    """Raises ConfigError if the port is taken; warns if the address does not belong to this machine."""
    if HELD_PORT_VARIABLE in os.environ:
        return
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("0.0.0.0", address.port))  # TensorFlow listens on every interface
            probe.listen()
    except PermissionError:
        raise ConfigError(
            f"port {address.port} of {task} ({address}) needs privileges: use a port from 1024 on."
        ) from None
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise ConfigError(
            f"port {address.port} of {task} ({address}) is busy{port_owner(address.port)}: "
            "stop that process or use another port."
        ) from None
    if not is_local(address.host):
        log.warning(
            "%s has the address %s, which is not of this machine; other tasks will connect to it there", task, address
        )


def hold_ports(sockets: Mapping[str, socket.socket]) -> None:
    """Keeps ports of this process reserved until `release_held_port`.

    Args:
      sockets: address to its bound socket.
    """
    for address, held in sockets.items():
        _held[int(address.rpartition(":")[2])] = held


def release_held_port(port: int | None) -> None:
    """Releases the port that the launcher, or this process, holds; the caller must bind it at once.

    Args:
      port: the port; None if it is not known.
    """
    inherited = os.environ.pop(HELD_PORT_VARIABLE, None)
    if inherited is not None:
        os.close(int(inherited))
    if port in _held:
        _held.pop(port).close()


def is_local(host: str) -> bool:
    """Returns whether this machine has the address; True for a name that does not resolve (`connect` reports that)."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return True
    for family, kind, protocol, _, name in found:
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.bind(name)
                return True
            except OSError:
                continue
    return False


def port_owner(port: int) -> str:
    """Returns ` (held by pid 12: python server.py)` where /proc shows the owner, else ""."""
    links = {f"socket:[{inode}]" for inode in _listening(port)}
    for link in glob.glob("/proc/[0-9]*/fd/*") if links else []:
        try:
            if os.readlink(link) in links:
                pid = link.split("/")[2]
                with open(f"/proc/{pid}/cmdline") as command:
                    return f" (held by pid {pid}: {command.read().replace(chr(0), ' ').strip()[:120]})"
        except OSError:
            continue
    return ""


def is_served(port: int) -> bool:
    """Returns True if a process is known to listen on a port of this machine."""
    return bool(_listening(port))


def _listening(port: int) -> set[str]:
    """Returns the inodes of the sockets that listen on a port, as far as /proc tells them."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        listening = "0A"
        inodes |= {row[9] for row in rows if row[3] == listening and int(row[1].rpartition(":")[2], 16) == port}
    return inodes
