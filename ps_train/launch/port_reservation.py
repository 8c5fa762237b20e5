"""Reservation of free ports of this machine until a child serves on them.

Standard library only: the launcher uses it.
"""

from __future__ import annotations

import socket


class PortReservation:
    """Reserved ports: each socket stays bound until the child that inherits it starts its server.

    Attributes:
      sockets: the bound socket of each address.
    """

    def __init__(self) -> None:
        self.sockets: dict[str, socket.socket] = {}
        self._addresses: set[str] = set()

    def reserve(self) -> str:
        """Reserves a free port; returns its address, `127.0.0.1:port`."""
        reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        reserved.bind(("127.0.0.1", 0))
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
        reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            reserved.bind(("127.0.0.1", int(address.rpartition(":")[2])))
        except OSError:
            reserved.close()
        else:
            self.sockets[address] = reserved
