"""A cluster of one ps and one worker inside this process, for a program without a cluster.

    with local_cluster(config) as own:          # a config with a cluster
        train(program with this config)

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
from ps_train.cluster.addresses.ports import hold_ports
from ps_train.commands.launch.port_reservation import PortReservation
from ps_train.compat.capture.job_of_config import cluster_job
from ps_train.config.job import Task
from ps_train.training.tasks import ps

_END_SECS = 10.0


class LocalConfig:
    """A config with a cluster of this process's own; all other settings are those of another config.

    Args:
      config: the other config.
      hosts: the addresses of the ps and of the worker.
    """

    task_type, task_id, is_chief = "worker", 0, True

    def __init__(self, config: Any, hosts: list[str]) -> None:
        self._config = config
        self.cluster_spec = v1.train.ClusterSpec({"ps": hosts[:1], "worker": hosts[1:]})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._config, name)


@contextlib.contextmanager
def local_cluster(config: Any, console: Console) -> Iterator[LocalConfig]:
    """Serves as a ps in a thread within the body.

    Args:
      config: the config of a program without a cluster.
      console: where the ps writes.

    Yields:
      The config of the worker.
    """
    ports = PortReservation()
    hosts = [ports.reserve(), ports.reserve()]
    hold_ports(ports.sockets)
    own = LocalConfig(config, hosts)

    def serve() -> None:
        with contextlib.suppress(PsTrainError):  # the worker raises the cause
            ps.run(cluster_job(own), Task("ps", 0), console)

    thread = threading.Thread(target=serve, daemon=True, name="ps")
    thread.start()
    try:
        yield own
    finally:
        thread.join(_END_SECS)
        for host in hosts:
            reset = threading.Thread(target=v1.Session.reset, args=[f"grpc://{host}"], daemon=True)
            reset.start()
            reset.join(_END_SECS)
