"""The TensorFlow server of this process, and a session's view of the cluster.

    server = start_server(address, job)
    session = v1.Session(server.target, config=session_config(cluster, task, job))

Every server knows only itself.  Each *session* describes the cluster (see `session_config`).  So a server never waits
for others, and a worker that is unknown to every ps may join.  `Server.join()` is never called, since it never returns.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from ps_train.base.errors import ConfigError
from ps_train.base.network_interfaces import is_loopback, listed, refuse_public_ports
from ps_train.cluster.addresses.cluster import Address, Cluster
from ps_train.cluster.addresses.ports import is_served, port_owner, release_held_port
from ps_train.config.job import Job, Task

log = logging.getLogger(__name__)

_BUSY_SECS, _FIRST_PAUSE_SECS = 3.0, 0.05
"""Seconds for which a port is tried that no process listens on, and the first pause between two attempts."""

T = TypeVar("T")

_servers: dict[int, v1.train.Server] = {}
"""The servers of this process by their ports: TensorFlow cannot end one, so a further job of the process has it too."""


def start_server(address: Address, job: Job, cpus: int = 1, spins: bool = True) -> v1.train.Server:
    """Starts a server on the address's port, on every interface (TensorFlow offers no other way).

    If this process already has a server there, it is that one.

    Args:
      address: of this task.
      job: says if the port may be public.
      cpus: number of CPU devices; they share the processors.
      spins: whether threads that have nothing to do look for work for a moment before they sleep.

    Raises:
      ConfigError: TensorFlow cannot serve there, or the port would be public and this is not allowed.
    """
    public = refuse_public_ports(f"the server on {address}", job.allow_public_ports)
    config = _device_config(job)
    config.experimental.disable_thread_spinning = not spins
    if cpus > 1:
        config.device_count["CPU"] = cpus
    if public or not is_loopback(address.host):
        log.warning(
            "port %d is open on every interface%s and TensorFlow's protocol has no authentication: any machine that "
            "reaches it can run code here; keep it behind a firewall",
            address.port,
            f", also at the public address {listed(public)}," if public else "",
        )
    if address.port in _servers:
        return _servers[address.port]
    spec = v1.train.ClusterSpec({"local": [str(address)]})

    def start() -> v1.train.Server:
        return v1.train.Server(spec, job_name="local", task_index=0, config=config)

    try:
        server = _servers[address.port] = serve_on_port(address.port, start)
        return server
    except tf.errors.OpError as error:
        raise ConfigError(f"TensorFlow cannot serve on {address}{port_owner(address.port)}: {error.message}") from None


def has_server(address: Address) -> bool:
    """Returns whether this process has started a server on the address's port."""
    return address.port in _servers


def forget_jobs() -> None:
    """Removes all state from the servers of this process: variables, and the records of their last job.

    No session of this process may be in use.
    """
    for server in _servers.values():
        v1.Session.reset(server.target)


def serve_on_port(port: int | None, start: Callable[[], T]) -> T:
    """Starts a server on a port that is held for it, and returns what `start` does.

    Where no process listens on the port, the attempt is repeated for a moment: the launcher may still have its copy of
    the socket that held the port, or an outgoing connection of this machine has just taken it.

    Args:
      port: the port; None if it is not known.
      start: starts the server.

    Raises:
      tf.errors.UnknownError: TensorFlow cannot serve on the port.
    """
    release_held_port(port)
    deadline, pause = time.monotonic() + _BUSY_SECS, _FIRST_PAUSE_SECS
    while True:
        try:
            return start()
        except tf.errors.UnknownError:
            if (port is not None and is_served(port)) or time.monotonic() >= deadline:
                raise
        time.sleep(pause)
        pause *= 2


def session_config(
    cluster: Cluster, task: Task, job: Job, further: Mapping[str, Address] | None = None
) -> v1.ConfigProto:
    """Returns a session's view: all ps, the task itself, and further servers by the job names that they have there.

    It neither needs nor waits for any other worker.
    """
    config = _device_config(job)
    jobs = {"ps": {index: str(address) for index, address in enumerate(cluster.ps)}}
    job_name, index = _session_task(task, cluster)
    jobs.setdefault(job_name, {})[index] = str(cluster.address(task))
    jobs |= {name: {0: str(address)} for name, address in (further or {}).items()}
    spec = v1.train.ClusterSpec(jobs)
    config.cluster_def.CopyFrom(spec.as_cluster_def())
    config.share_cluster_devices_in_session = True
    config.allow_soft_placement = job.towers != "1"  # a model's strings have no place on a GPU
    # Otherwise every session would have its own variables on the ps.
    config.experimental.share_session_state_in_clusterspec_propagation = True
    # By default TensorFlow optimizes each graph twice, which delays the first steps for hardly any gain.
    config.graph_options.rewrite_options.meta_optimizer_iterations = RewriterConfig.ONE
    return config


def own_config(cluster: Cluster, task: Task, job: Job) -> v1.ConfigProto:
    """Returns the view of a session on the task's own devices only; it shares their state with all other sessions."""
    return session_config(dataclasses.replace(cluster, ps=()), task, job)


def device_of(task: Task, cluster: Cluster | None = None) -> str:
    """Returns the TensorFlow device name of a task.

    Args:
      task: with its index.
      cluster: the cluster; None stands for one whose ps are processes of their own.
    """
    job_name, index = _session_task(task, cluster)
    name = f"/job:{job_name}/replica:0/task:{index}"
    if job_name == task.job_name or tf.config.list_physical_devices("GPU"):
        return name
    return f"{name}/device:CPU:1"  # TensorFlow would take CPU:0, which is the ps's (`engine/variables/variables.py`)


def _session_task(task: Task, cluster: Cluster | None) -> tuple[str, int]:
    """Returns job name and task index of a task in sessions.

    TensorFlow knows a process by one name.  A worker that is also a ps has that of the ps in all sessions, its own too,
    so it reaches its own share without any message.
    """
    index = None if cluster is None else cluster.ps_of(task)
    return (task.job_name, task.task_index or 0) if index is None else ("ps", index)


def _device_config(job: Job) -> v1.ConfigProto:
    config = v1.ConfigProto()
    config.gpu_options.allow_growth = job.gpu_memory_growth
    if job.gpus >= 0:
        config.device_count["GPU"] = job.gpus
    return config
