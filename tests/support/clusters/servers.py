"""TensorFlow servers for the tests of one process, used again and again: none can ever be stopped.

servers = POOL.take(3)          # for the length of a test
workers = POOL.take(1, cpus=2)  # with two logical devices
session = POOL.session(servers[0].target, graph, config)
POOL.give_back()                # at its end: variables, queues and sessions on them are gone
"""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.polling import poll_until
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.sessions.calls import RepeatingSession
from ps_train.cluster.sessions.server import start_server
from ps_train.config.job import Job
from tests.support.machine.ports import free_ports

_RESET_SECS = 5.0


@dataclasses.dataclass(frozen=True)
class Running:
    host: str
    server: Any
    cpus: int

    @property
    def target(self) -> str:
        return str(self.server.target)


class _Noting(RepeatingSession):
    """A session that knows whether a call of it was cut off at a deadline."""

    cut_off = False

    def run(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().run(*args, **kwargs)
        except tf.errors.DeadlineExceededError:
            self.cut_off = True
            raise


class Pool:
    """Servers that nobody uses, and those that the present test uses."""

    def __init__(self) -> None:
        self._free: dict[int, list[Running]] = {}
        self._used: list[Running] = []
        self._sessions: list[Any] = []
        self._kept: list[Any] = []

    def take(self, count: int, cpus: int = 1) -> list[Running]:
        free = self._free.setdefault(cpus, [])
        while len(free) < count:
            host = f"127.0.0.1:{free_ports(1)[0]}"
            free.append(Running(host, start_server(Address.parse(host, "tests"), Job(), cpus), cpus))
        taken, self._free[cpus] = free[:count], free[count:]
        self._used += taken
        return taken

    def session(self, target: str, graph: tf.Graph, config: v1.ConfigProto) -> RepeatingSession:
        """One that lives until its server is given back.  A session that is collected while an iterator of it fetches
        ahead takes the iterator's device away: the process dies of a segmentation fault."""
        session = _Noting(target, graph=graph, config=config)
        self._sessions.append(session)
        return session

    def keep(self, owner: Any) -> None:
        """Keeps what has a session of its own, such as an `Input`, as long as `session` keeps one."""
        self._sessions.append(owner)

    def give_back(self) -> None:
        """Resets the servers, which ends iterators before sessions.  A server that does not let go of a step is not
        used again, nor is any session of this test then closed.

        Tasks may work on after a call of theirs was cut off.  A server that is reset meanwhile may die of a
        segmentation fault, and nothing says when they end: the servers of such a test are kept as they are.
        """
        used, self._used = self._used, []
        sessions, self._sessions = self._sessions, []
        if any(isinstance(session, _Noting) and session.cut_off for session in sessions):
            self._kept += sessions
            return
        # A server that is reset while a session of it is closed dies of the same fault.
        poll_until(_nothing_is_closed, time.monotonic() + _RESET_SECS, 0.01)
        for running in used:
            reset = threading.Thread(target=v1.Session.reset, args=[running.target], daemon=True)
            reset.start()
            reset.join(_RESET_SECS)
            if not reset.is_alive():
                self._free[running.cpus].append(running)
            else:
                self._kept += sessions


def _nothing_is_closed() -> bool:
    return all(thread.name != "close" for thread in threading.enumerate())


POOL = Pool()
