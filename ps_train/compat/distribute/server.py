"""`tf.distribute.Server` of a program that ps_train runs: `join()` is the task's part in the training.

    server = Server(resolver.cluster_spec(), job_name="ps", task_index=0)
    server.join()               # ends the process when the program is over

No server of TensorFlow starts with it: a task of ps_train starts its own when it trains.
"""

from __future__ import annotations

from typing import Any, NoReturn

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.compat.distribute import joined
from ps_train.compat.train.process_end import end_process_with
from ps_train.config.job import Task

_HOSTS = {"ps": "ps_hosts", "worker": "worker_hosts", "chief": "chief_hosts", "master": "chief_hosts"}


def cluster_flags(spec: Any) -> dict[str, tuple[str, ...]]:
    """Returns the host lists of a cluster of TensorFlow, by the names of flags."""
    hosts = v1.train.ClusterSpec(spec).as_dict()
    return {_HOSTS[job]: tuple(hosts[job]) for job in hosts if job in _HOSTS}


class Server:
    """A task of a cluster, with the arguments of `tf.distribute.Server`.

    Args:
      server_or_cluster_def: the cluster.
      job_name: of this process's task.
      task_index: of this process's task.
      protocol, config, start: ignored.
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
    ) -> None:
        definition = server_or_cluster_def
        if isinstance(definition, tf.train.ServerDef):
            job_name, task_index = job_name or definition.job_name, task_index or definition.task_index
            definition = definition.cluster
        self._cluster = v1.train.ClusterSpec(definition)
        job_name = job_name or self._cluster.jobs[0]
        self._task = Task("chief" if job_name == "master" else job_name, task_index or 0)
        self._address = self._cluster.task_address(job_name, task_index or 0)

    @property
    def target(self) -> str:
        """The address of the task."""
        return f"grpc://{self._address}"

    def start(self) -> None:
        """Does nothing: the task serves when it trains."""

    def join(self) -> NoReturn:
        """Takes this task's part in the training, and ends the process when the program is over.

        Raises:
          SystemExit: always.
        """
        end_process_with(lambda: joined.join(self._task, cluster_flags(self._cluster)))
