"""The open TCP connections of this process.

    for connection in tcp_connections():    # a copy of each; closing it leaves the connection open
        connection.getpeername()

    shut_down_incoming(2222)                # calls over them end with UnavailableError; new ones connect again

Linux and the standard library only: nothing is found where /proc does not show the descriptors.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator


def tcp_connections() -> Iterator[socket.socket]:
    """Yields a copy of each connected or listening TCP socket; it is closed when the next one is asked for."""
    try:
        descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return
    for descriptor in descriptors:
        with contextlib.suppress(OSError):  # another thread may have closed it
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as copy:
                if copy.family in (socket.AF_INET, socket.AF_INET6) and copy.type == socket.SOCK_STREAM:
                    yield copy


def shut_down_incoming(port: int) -> int:
    """Shuts down each connection that another process has opened to `port`; returns their number.

    The server listens on, and sees what it sees when the other side has gone.
    """
    count = 0
    for connection in tcp_connections():
        with contextlib.suppress(OSError):
            connection.getpeername()  # fails for the listening socket, which must stay as it is
            if connection.getsockname()[1] == port:
                connection.shutdown(socket.SHUT_RDWR)
                count += 1
    return count
