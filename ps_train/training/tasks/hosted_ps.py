"""The duties of a ps in the process of a worker, under `--ps_on_workers`.

    with hosted_ps(job, task, cluster):
        ...                             # other tasks find this process as ps i, i the replica index of the task

The worker's server holds the variables and the store of a ps.  A thread writes the ps's measurements.  The process
stays, as a ps does, until every other training task has read the outcome of the job from its store.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow.compat.v1 as v1

from ps_train.base.errors import ConfigError
from ps_train.base.gauge import Gauge
from ps_train.base.life_sign import LifeSign
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership import records
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.presence import HEARTBEAT_SECS
from ps_train.cluster.membership.telemetry import TelemetrySource
from ps_train.cluster.sessions.server import has_server, start_server
from ps_train.config.job import Job, Task
from ps_train.engine.step.towers import find_towers
from ps_train.engine.variables.plan import Plan
from ps_train.observe.status.display import Display
from ps_train.training.tasks.ps import read_records, send_telemetry, wait_for_acknowledgements

log = logging.getLogger(__name__)


class HostedPsDisplay(Display):
    """What the status page shows of ps in the processes of workers."""

    processes = (Gauge("ps", label="Each worker is a parameter server too."),)

    def __init__(self) -> None:
        self._hosts: dict[str, str] = {}

    def planned(self, plan: Plan, cluster: Cluster) -> None:
        """Knows the ps in the processes of workers."""
        hosts = enumerate(cluster.ps_tasks)
        self._hosts = {f"ps:{index}": str(host) for index, host in hosts if host.job_name != "ps"}
        self.exempt = ["ps_cpu"] if self._hosts else []  # the process computes, too

    def of_worker(self, task: str, status: records.TaskStatus | None, state: str) -> Mapping[str, Any]:
        """Returns the ps in the process of a worker."""
        return {"ps": next((ps for ps, host in self._hosts.items() if host == task), None)}


@contextlib.contextmanager
def hosted_ps(job: Job, task: Task, cluster: Cluster) -> Iterator[v1.train.Server | None]:
    """Serves this worker's share of the variables for the body.

    Args:
      job: gives the settings of the server.
      task: this task, a worker or the chief.
      cluster: gives this task's address, and the ps that is in its process.

    Yields:
      The server of this process, which is also the worker's; None where the ps are processes of their own.

    Raises:
      ConfigError: TensorFlow cannot serve at the address of the task.
    """
    index = cluster.ps_of(task)
    if index is None:
        yield None
        return
    address, ps = cluster.address(task), Task("ps", index)
    if has_server(address):
        raise ConfigError(
            f"{task} has trained a job before, and still holds its variables: a further fit of the same processes "
            "needs ps of their own; give the cluster ps, as with --num_ps=1.",
            page="speed#ps-on-the-workers",
        )
    server = start_server(address, job, find_towers(job).cpus + 1)
    store = KeyValueStore(server.target, f"{ps} ({address})")
    store.set(records.IDENTITY, records.identity_of(job, ps).to_json())
    log.info("%s holds the variables of %s on %s", task, ps, address)
    sign = LifeSign("hosted ps", functools.partial(send_telemetry, store, TelemetrySource()), HEARTBEAT_SECS, 0.0)
    sign.start()
    try:
        yield server
    finally:
        sign.stop()
        if records.OUTCOME in read_records(store, {}):
            wait_for_acknowledgements(store, {str(one) for one in cluster.replicas()} - {str(task)})
