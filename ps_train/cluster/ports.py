"""Checks of this process's port: it is free, its host is this machine, and the name of the process that holds it.

    check_port(Address("localhost", 2222), Task("ps", 0))     # raises ConfigError that names the holder

Imports no TensorFlow, so that a busy port is reported at once.
"""

from __future__ import annotations

import errno
import glob
import ipaddress
import logging
import os
import socket

from ps_train.cluster.spec import Address
from ps_train.config.job import HELD_PORT_VARIABLE
from ps_train.config.task import Task
from ps_train.errors import ConfigError

log = logging.getLogger(__name__)


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


def release_held_port() -> None:
    """Releases the port that the launcher held for this process; the caller must bind it at once."""
    held = os.environ.pop(HELD_PORT_VARIABLE, None)
    if held is not None:
        os.close(int(held))


def is_loopback(host: str) -> bool:
    """Returns whether a host is this machine's loopback interface."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as lines:
                rows = [line.split() for line in lines][1:]
        except OSError:
            continue
        listening = "0A"
        inodes |= {row[9] for row in rows if row[3] == listening and int(row[1].rpartition(":")[2], 16) == port}
    for link in glob.glob("/proc/[0-9]*/fd/*"):
        try:
            if os.readlink(link) in {f"socket:[{inode}]" for inode in inodes}:
                pid = link.split("/")[2]
                with open(f"/proc/{pid}/cmdline") as command:
                    return f" (held by pid {pid}: {command.read().replace(chr(0), ' ').strip()[:120]})"
        except OSError:
            continue
    return ""
