"""A cluster of one ps and one worker inside this process, for a program without a cluster.

    own = LocalConfig(config)                   # a config with a cluster, whose ports are held
    with local_ps(own, console):
        ...                                     # train with this config

TensorFlow cannot stop a server.  Each call starts two small ones; the memory of their variables is freed.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.base.console import Console
from ps_train.base.errors import PsTrainError
from ps_train.cluster.addresses.ports import hold_ports, release_held_port
from ps_train.commands.launch.port_reservation import PortReservation
from ps_train.compat.capture.job_of_config import cluster_job
from ps_train.config.cluster_fields import PS_FLAGS
from ps_train.config.job import Task
from ps_train.training.tasks import ps

_END_SECS = 10.0


class LocalConfig:
    """A config with a cluster of this process's own; all other settings are those of another config.

    Args:
      config: the other config.

    Attributes:
      hosts: the addresses of the ps and of the worker.
    """

    task_type, task_id, is_chief = "worker", 0, True

    def __init__(self, config: Any) -> None:
        self._config = config
        ports = PortReservation()
        self.hosts = [ports.reserve(), ports.reserve()]
        hold_ports(ports.sockets)
        self.cluster_spec = v1.train.ClusterSpec({"ps": self.hosts[:1], "worker": self.hosts[1:]})

    def release(self) -> None:
        """Releases the ports on which nobody serves."""
        for host in self.hosts:
            release_held_port(int(host.rpartition(":")[2]))

    @property
    def job(self) -> dict[str, Any] | None:
        """The further flags; the ps is in this process in any case."""
        given = getattr(self._config, "job", None)
        return given and {name: given[name] for name in given if name not in PS_FLAGS}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)


@contextlib.contextmanager
def local_ps(own: LocalConfig, console: Console) -> Iterator[None]:
    """Serves as a ps in a thread within the body.

    Only its worker tells a ps that the job is over: the body is no place for what may fail before there is a worker.

    Args:
      own: the config of the cluster.
      console: where the ps writes.
    """

    def serve() -> None:
        with contextlib.suppress(PsTrainError):  # the worker raises the cause
            ps.run(cluster_job(own), Task("ps", 0), console)

    thread = threading.Thread(target=serve, daemon=True, name="ps")
    thread.start()
    try:
        yield
    finally:
        thread.join(_END_SECS)
        for host in own.hosts:
            reset = threading.Thread(target=v1.Session.reset, args=[f"grpc://{host}"], daemon=True)
            reset.start()
            reset.join(_END_SECS)
