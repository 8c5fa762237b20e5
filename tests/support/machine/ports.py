"""Free ports of this machine."""

from __future__ import annotations

import random
import socket


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, outside of the range that the kernel takes for outgoing connections."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports
