"""Free ports of this machine that stay ours until somebody serves on them.

Standard library only: the launcher uses it.
"""

from __future__ import annotations

import socket


class PortReservation:
    """Free ports that stay ours: each socket is bound until the child that inherits it starts its server."""

    def __init__(self) -> None:
        self.sockets: dict[str, socket.socket] = {}
        self._ours: set[str] = set()

    def reserve(self) -> str:
        """A new `127.0.0.1:port`."""
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        self.sockets[address] = held
        self._ours.add(address)
        return address

    def reserve_again(self, address: str) -> None:
        """For the next process of the same task; where somebody else was faster, that process will say so."""
        if address not in self._ours:
            return
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            held.bind(("127.0.0.1", int(address.rpartition(":")[2])))
        except OSError:
            held.close()
        else:
            self.sockets[address] = held
