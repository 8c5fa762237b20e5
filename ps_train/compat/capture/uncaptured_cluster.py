"""Cluster of the unfused engine: the server of a worker, its session's view of the cluster, and its signs of life.

    place = join_cluster(config)            # once in a process; place.master, place.session_config

The ps are those of the other engine (`training/tasks/ps.py`): a ps ends when all workers have written that they leave.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import logging
import threading
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError, LostTaskError
from ps_train.cluster.addresses.resolver import ClusterResolver
from ps_train.cluster.membership.connect import connect_all_ps
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.records import TaskState, TaskStatus, new_task_status, task_key
from ps_train.cluster.sessions.server import session_config, start_server
from ps_train.compat.capture.job_of_config import cluster_job, task_of

log = logging.getLogger(__name__)

_BEAT_SECS, _LAST_SECS = 1.0, 5.0


@dataclasses.dataclass(frozen=True)
class Place:
    """The place of a worker in the cluster.

    Attributes:
      master: target of the worker's own server.
      worker_device: device of the worker.
      session_config: settings of its sessions, in which the cluster is described.
      num_ps: number of ps.
    """

    master: str
    worker_device: str
    session_config: v1.ConfigProto | None
    num_ps: int


_places: dict[str, Place] = {}
"""The place of this process's task: TensorFlow cannot stop a server."""


def join_cluster(config: Any) -> Place:
    """Starts the server of a worker, connects to all ps, and begins to give signs of life; once in a process.

    Raises:
      ConfigError: the cluster has no ps, or TensorFlow cannot serve on the address.
      UnreachableError: a ps does not answer in time.
      RefusedError: a ps has another cluster.
    """
    job, task = cluster_job(config), task_of(config)
    if not job.ps_hosts:
        raise ConfigError("the cluster (from TF_CONFIG) has workers but no ps: add one, or leave the cluster out.")
    key = f"{task} of {config.cluster_spec.as_dict()}"
    if key not in _places:
        resolver = ClusterResolver(job)
        server = start_server(resolver.cluster.address(task), job)
        stores = connect_all_ps(resolver, task, job.shared_fields(), job.startup_timeout_secs)
        Presence(stores, new_task_status(str(task))).start()
        settings = v1.ConfigProto()
        if config.session_config is not None:
            settings.CopyFrom(config.session_config)
            del settings.device_filters[:]  # the description below names only the tasks that a worker needs
        settings.MergeFrom(session_config(resolver.cluster, task, job))
        _places[key] = Place(server.target, f"/job:{task.job_name}/task:{task.task_index}", settings, len(stores))
    return _places[key]


def local_place(config: Any) -> Place:
    """Returns the place of a program without a cluster."""
    return Place("", "", config.session_config, 0)


class Presence:
    """Signs of life of a worker's process, for every ps.

    Args:
      stores: the store of each ps.
      status: the status of the task.
    """

    def __init__(self, stores: list[KeyValueStore], status: TaskStatus) -> None:
        self._stores, self._status = stores, dataclasses.replace(status, state=TaskState.TRAINING)
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._beat, args=[store], daemon=True) for store in stores]

    def start(self) -> None:
        """Starts a thread for each ps; the process's end ends them."""
        for thread in self._threads:
            thread.start()
        atexit.register(self.leave)

    def leave(self) -> None:
        """Tells every ps that this worker leaves; waits a few seconds at most."""
        self._ending.set()
        for thread in self._threads:
            thread.join(_LAST_SECS)

    def _beat(self, store: KeyValueStore) -> None:
        number = 0
        while not self._ending.is_set():
            number += 1
            self._write(store, dataclasses.replace(self._status, heartbeat=number))
            self._ending.wait(_BEAT_SECS)
        self._write(store, dataclasses.replace(self._status, heartbeat=number + 1, state=TaskState.LEFT))

    def _write(self, store: KeyValueStore, status: TaskStatus) -> None:
        with contextlib.suppress(LostTaskError):  # a ps that is gone needs no sign
            store.set(task_key(status.task), status.to_json())
