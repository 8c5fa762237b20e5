"""The classic server, whose `join()` ends the process when the job is over.

    server = Server(cluster, job_name="ps", task_index=0)
    server.join()                       # ends the process when all workers have ended

A server of any other task tells every ps that its process lives, and at its end that it ends (`presence.py`).  The
cluster is TensorFlow's: `{"ps": [...], "worker": [...]}`.  Sessions of this process get device filters from
`session_config`, so none waits for another worker, unless its graph places work there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import logging
import os
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import tensorflow as tf
import tensorflow.compat.v1 as v1
from tensorflow.core.protobuf import tensorflow_server_pb2

from ps_train.base.errors import ConfigError, UnreachableError
from ps_train.base.network_interfaces import listed, refuse_public_ports
from ps_train.cluster.addresses.cluster import Address
from ps_train.cluster.addresses.environment import without_proxy
from ps_train.cluster.addresses.ports import port_owner
from ps_train.cluster.membership.connect import NotReadyError, check_reachable, retry_until
from ps_train.cluster.membership.presence import AbsenceLimits, JobEndDetector, ScriptPresence, ps_store, wait_for_end
from ps_train.cluster.membership.records import TaskState
from ps_train.cluster.sessions.server import serve_on_port
from ps_train.compat.train.named_tasks import named_tasks
from ps_train.compat.train.process_end import end_process_after

log = logging.getLogger(__name__)

_NOT_TRAINING = ("ps", "evaluator")


@dataclasses.dataclass(frozen=True)
class ScriptCluster:
    """The cluster of a script, and this process's task in it.

    Attributes:
      hosts: the address of each task, by job name and task index.
      job_name: of this process.
      task_index: of this process.
    """

    hosts: dict[str, dict[int, str]]
    job_name: str
    task_index: int

    @property
    def task(self) -> str:
        """The name of this process's task, `worker:1`."""
        return f"{self.job_name}:{self.task_index}"

    @property
    def device(self) -> str:
        """The name of this process's task in TensorFlow, `/job:worker/task:1`."""
        return f"/job:{self.job_name}/task:{self.task_index}"

    @property
    def ps(self) -> list[Address]:
        """The addresses of all ps."""
        return [address for _, address in self.members("/job:ps")]

    def members(self, device: str) -> list[tuple[str, Address]]:
        """Returns the tasks of a device, `/job:worker/task:1` or `/job:worker`, as (name, address)."""
        spec = tf.DeviceSpec.from_string(device)
        return [
            (f"{spec.job}:{index}", Address.parse(host, f"the {spec.job} of the cluster"))
            for index, host in sorted(self.hosts.get(spec.job, {}).items())
            if spec.task in (None, index)
        ]

    def workers(self) -> list[str]:
        """Returns the names of the tasks that train: the chief first, then the others by their index."""
        jobs = sorted((job for job in self.hosts if job not in _NOT_TRAINING), key=lambda job: (job == "worker", job))
        return [f"{job}:{index}" for job in jobs for index in sorted(self.hosts[job])]


class ScriptTask:
    """This process's task in the training of a script, which every ps is told of; the newest one counts.

    Args:
      target: the target of the task's server.
      cluster: the cluster and the task.
      limits: the seconds after which an absent worker counts as gone.

    Attributes:
      target, cluster, limits: the same.
      presence: the announcement of this task to every ps.
      has_agreed: whether its variables are those of the other tasks (`agreed_variables.py`).
    """

    has_agreed = False

    def __init__(self, target: str, cluster: ScriptCluster, limits: AbsenceLimits) -> None:
        self.target, self.cluster, self.limits = target, cluster, limits
        self.presence = ScriptPresence(cluster.task, cluster.ps, limits)
        _begun.append(self)

    def wait_for(self, devices: Sequence[str]) -> None:
        """Waits until the tasks of devices answer, since a session would wait for them without a word.

        Raises:
          UnreachableError: one does not answer within the limits, or has ended.
        """
        for name, address in [found for device in devices for found in self.cluster.members(device)]:
            described = f"{name} ({address}), on which the graph places work"
            attempt = functools.partial(self._check_not_ended, name, address, described)
            retry_until(attempt, self.limits.startup_secs, described)

    def _check_not_ended(self, name: str, address: Address, described: str) -> None:
        """Raises NotReadyError if a task does not answer yet, and UnreachableError if it has announced its end."""
        try:
            check_reachable(address)
        except NotReadyError:
            if self.presence.has_ended(name):
                raise UnreachableError(f"{described}, has ended.") from None
            raise


_begun: list[ScriptTask] = []


def current_task() -> ScriptTask | None:
    """Returns the newest task of this process that trains and has not left; None if there is none."""
    return next((task for task in reversed(_begun) if not task.presence.has_left), None)


class Server(v1.train.Server):
    """A TensorFlow server as `tf.compat.v1.train.Server`, with the same arguments.

    Attributes:
      limits: the seconds after which an absent worker counts as gone.
      cluster: the cluster and this process's task.
      task: the task that trains; None for a ps, or where the cluster has no ps.

    Raises:
      ConfigError: the machine has a public address; the environment variable PS_TRAIN_ALLOW_PUBLIC_PORTS=1 allows it.
      tf.errors.OpError: the server cannot be started; if the port is busy, it says which process has it.
    """

    limits = AbsenceLimits()

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
    ) -> None:
        if public := refuse_public_ports("the server"):
            log.warning("the server is open to any client at the public address %s", listed(public))
        address = _address_in(server_or_cluster_def, job_name, task_index)
        make = functools.partial(super().__init__, server_or_cluster_def, job_name, task_index, protocol, config, start)
        try:
            serve_on_port(address.port if address else None, make)
        except tf.errors.UnknownError as error:
            if address is None:
                raise
            own = job_name or server_or_cluster_def.job_name, task_index or 0
            text = f"{error.message}: TensorFlow cannot serve on {address}{port_owner(address.port)}"
            raise tf.errors.UnknownError(None, None, f"{text}, {_who_has(server_or_cluster_def, *own)}") from None
        definition = self.server_def
        hosts = {job.name: dict(job.tasks) for job in definition.cluster.job}
        self.cluster = ScriptCluster(hosts, definition.job_name, definition.task_index)
        self.task: ScriptTask | None = None
        named = {address.rpartition(":")[0] for tasks in hosts.values() for address in tasks.values()}
        os.environ.update(without_proxy(sorted(named), os.environ))
        if hosts.get("ps") and self.cluster.job_name not in _NOT_TRAINING:
            self.task = ScriptTask(tf.compat.as_text(self.target), self.cluster, self.limits)

    def join(self) -> NoReturn:
        """Waits until all workers have ended, and then ends the process.

        A worker that fell silent counts as gone after `limits`.  A worker that calls this ends by it: its own part of
        the job is over.  In a cluster without a ps it blocks for ever, as TensorFlow's does.

        Raises:
          SystemExit: always.  The code is 0, or 1 with a printed line if no worker came or none ended well.
        """
        if not self.cluster.hosts.get("ps"):
            super().join()
        if self.task is not None:
            presence = self.task.presence
            presence.announce(TaskState.SERVING) if presence.state == TaskState.TRAINING else presence.leave()
        is_ps = self.cluster.job_name == "ps"
        own = self.cluster.task_index if is_ps else 0
        if is_ps:
            address = Address.parse(self.target.removeprefix("grpc://"), "the server's target")
        else:
            address = self.cluster.ps[0]
        store = ps_store(address, own)
        detector = JobEndDetector(self.cluster.workers(), self.limits, time.monotonic())
        lost_secs = float("inf") if is_ps else self.limits.restart_secs

        def wait() -> None:
            log.info("%s ends: %s", self.cluster.task, wait_for_end(store, detector, lost_secs=lost_secs))

        end_process_after(wait)


def num_workers() -> int:
    """Returns the number of tasks that train in this process's cluster; 1 without a server."""
    task = current_task()
    return len(task.cluster.workers()) if task else 1


def session_config(master: str, config: Any, graph: tf.Graph) -> Any:
    """Returns a session's configuration with device filters: all ps, the own task, and those that the graph names.

    Without them TensorFlow waits, at the begin of a session, for every worker, also for one that has ended; and for a
    ps it waits for ever.  Raises UnreachableError if a ps, or another task of the graph, does not answer within the
    server's limits.

    Args:
      master: the target of the session.
      config: a `ConfigProto` or None; one with filters of its own is not changed.
      graph: the graph of the session.
    """
    task = current_task()
    if task is None or master != task.target:
        return config
    task.presence.wait_for_ps(task.limits.startup_secs)
    if config is not None and config.device_filters:
        return config
    others = named_tasks(graph, task.cluster.device)
    task.wait_for(others)
    found = v1.ConfigProto()
    if config is not None:
        found.CopyFrom(config)
    found.device_filters.extend(["/job:ps", task.cluster.device, *others])
    return found


def _who_has(definition: Any, job_name: str, index: int) -> str:
    """Returns the words of an error that say which two tasks have one port.

    Args:
      definition: the cluster, in which the task stands.
      job_name: of the task.
      index: of the task.
    """
    if isinstance(definition, tensorflow_server_pb2.ServerDef):
        index, definition = index or definition.task_index, definition.cluster
    own, hosts = f"{job_name}:{index}", v1.train.ClusterSpec(definition).as_dict()
    address = hosts[job_name][index]
    same = [f"{job}:{each}" for job, tasks in hosts.items() for each, host in _numbered(tasks) if host == address]
    if len(same) > 1:
        return f"the address of {' and of '.join(same)}: give each task an address of its own."
    with contextlib.suppress(ValueError, KeyError, TypeError):
        task = json.loads(os.environ["TF_CONFIG"])["task"]
        if (told := f"{task['type']}:{task['index']}") != own:
            return (
                f"the address of {own}, and by TF_CONFIG this process is {told}: two processes serve as {own}. Take "
                "the task from TF_CONFIG, or from the flags job_name and task_index."
            )
    return (
        f"the address of {own}: end that process, or use another port; two processes of one job cannot both be {own}."
    )


def _numbered(tasks: Any) -> Any:
    return tasks.items() if isinstance(tasks, dict) else enumerate(tasks)


def _address_in(definition: Any, job_name: str | None, task_index: int | None) -> Address | None:
    """Returns the address of the task that a server is made for; None if it is not told."""
    try:
        if isinstance(definition, tensorflow_server_pb2.ServerDef):
            job_name = job_name or definition.job_name
            task_index = definition.task_index if task_index is None else task_index
            definition = definition.cluster
        hosts = v1.train.ClusterSpec(definition).as_dict()[job_name]
        return Address.parse(hosts[task_index or 0], f"the cluster's {job_name}")
    except (TypeError, KeyError, IndexError, ConfigError):
        return None
