"""TensorFlow servers for the tests of one process, used again and again: none can ever be stopped.

servers = POOL.take(3)          # for the length of a test
POOL.give_back()                # at its end: variables, queues and sessions on them are gone
"""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.cluster.server import start_server
from ps_train.cluster.spec import Address
from ps_train.config import Job
from tests.support.processes import free_ports

_RESET_SECS = 5.0


@dataclasses.dataclass(frozen=True)
class Running:
    host: str
    server: Any

    @property
    def target(self) -> str:
        return str(self.server.target)


class Pool:
    """Servers that nobody uses, and those that the present test uses."""

    def __init__(self) -> None:
        self._free: list[Running] = []
        self._used: list[Running] = []

    def take(self, count: int) -> list[Running]:
        while len(self._free) < count:
            host = f"127.0.0.1:{free_ports(1)[0]}"
            self._free.append(Running(host, start_server(Address.parse(host, "tests"), Job())))
        taken, self._free = self._free[:count], self._free[count:]
        self._used += taken
        return taken

    def give_back(self) -> None:
        """A server that does not let go of a step is not used again."""
        used, self._used = self._used, []
        for running in used:
            reset = threading.Thread(target=v1.Session.reset, args=[running.target], daemon=True)
            reset.start()
            reset.join(_RESET_SECS)
            if not reset.is_alive():
                self._free.append(running)


POOL = Pool()
