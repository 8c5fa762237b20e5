"""The joining of a training task: it connects to every ps, acquires its lease, and shows that it lives.

with join_as_worker(prepared) as joined:
    joined.stores[0].set(...)
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ps_train.base.errors import RefusedError
from ps_train.base.lifecycle import Recorder, attach
from ps_train.base.signals import MainThreadEvents
from ps_train.base.untrusted import read_object
from ps_train.cluster.addresses.resolver import ClusterResolver
from ps_train.cluster.membership import records
from ps_train.cluster.membership.connect import connect_all_ps, patient, retry_until
from ps_train.cluster.membership.heartbeat import FailureDetector, Heartbeat
from ps_train.cluster.membership.job_diff import diff_configs
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.lease import Lease
from ps_train.cluster.membership.membership import MembershipMonitor
from ps_train.cluster.membership.records import status_of
from ps_train.cluster.membership.telemetry import TelemetrySource
from ps_train.config.job import Job
from ps_train.observe.status.display import Displays
from ps_train.observe.status.observer import JobObserver
from ps_train.training.joining.model_directory import ModelDirectory
from ps_train.training.joining.prepare import Prepared

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Joined:
    """The connections of a training task while it is a member of the job.

    Attributes:
      resolver: current addresses of the ps.
      stores: the key-value store of each ps.
      heartbeat: the heartbeat of this task, which renews its lease.
      events: events that wake the main thread.
      telemetry: the measurements of this task.
      directory: the local model directory, or its spool; "" unless this task is the chief.
    """

    resolver: ClusterResolver
    stores: list[KeyValueStore]
    heartbeat: Heartbeat
    events: MainThreadEvents
    telemetry: TelemetrySource
    directory: str


@dataclasses.dataclass(frozen=True)
class JoinedAsChief(Joined):
    """The connections of the chief.

    Attributes:
      membership: the monitor of the replicas.
      observer: the observer of the job.
      model_directory: the model directory, which the chief holds.
    """

    membership: MembershipMonitor
    observer: JobObserver
    model_directory: ModelDirectory


@contextlib.contextmanager
def join_as_worker(prepared: Prepared) -> Iterator[Joined]:
    """Joins the job for the body.

    Raises:
      UnreachableError: a ps does not answer in time.
      RefusedError: a ps is not of this job, or another process holds this task's lease.
    """
    job, chief = prepared.job, str(prepared.cluster.chief)
    resolver, stores, lease, telemetry = _connect(prepared, attach(Recorder()))
    detector = FailureDetector({chief: job.recovery_timeout_secs}, job.startup_timeout_secs, time.monotonic())
    events = MainThreadEvents()
    heartbeat = Heartbeat(stores, resolver, lease, events, job, detector)
    with _beating(heartbeat, events):
        yield Joined(resolver, stores, heartbeat, events, telemetry, "")


@contextlib.contextmanager
def join_as_chief(prepared: Prepared, directory: ModelDirectory, displays: Displays) -> Iterator[JoinedAsChief]:
    """Joins the job as the chief for the body.

    Args:
      prepared: this task.
      directory: the model directory, which it holds.
      displays: what features show on the status page.

    Raises:
      ConfigError: the port of the status page cannot be opened.
      UnreachableError, RefusedError: as for another worker; or the ps serve another job.
    """
    job, cluster, recorder = prepared.job, prepared.cluster, attach(Recorder(prepared.job.events_json))
    observer = JobObserver(job, cluster, recorder, directory.path, displays)
    resolver, stores, lease, telemetry = _connect(prepared, recorder)
    _when_answered(lambda: _describe(stores[0], prepared.description, str(prepared.task)), stores[0], job)
    membership = MembershipMonitor(job, cluster, time.monotonic())
    events = MainThreadEvents()
    heartbeat = Heartbeat(stores, resolver, lease, events, job, membership)
    observer.watch(heartbeat)
    directory.watch(events.set_terminal_error)
    with _beating(heartbeat, events):
        path = directory.path
        yield JoinedAsChief(resolver, stores, heartbeat, events, telemetry, path, membership, observer, directory)


@contextlib.contextmanager
def _beating(heartbeat: Heartbeat, events: MainThreadEvents) -> Iterator[None]:
    heartbeat.start()
    try:
        yield
    finally:
        heartbeat.stop()
        events.close()


def _connect(
    prepared: Prepared, recorder: Recorder
) -> tuple[ClusterResolver, list[KeyValueStore], Lease, TelemetrySource]:
    """Connects to every ps and acquires the lease, whose renewals carry measurements and events of this task."""
    job, task, resolver = prepared.job, prepared.task, ClusterResolver(prepared.job)
    stores = connect_all_ps(resolver, task, job.shared_fields(), job.startup_timeout_secs)
    telemetry = TelemetrySource(recorder)
    lease = Lease(stores[0], status_of(job, task), telemetry.read)
    _when_answered(lambda: lease.acquire(job.heartbeat_timeout_secs), stores[0], job)
    return resolver, stores, lease, telemetry


def _when_answered(call: Callable[[], None], store: KeyValueStore, job: Job) -> None:
    """Makes a call to ps 0 again until it is answered: no heartbeat watches this ps yet."""
    retry_until(lambda: patient(call), job.startup_timeout_secs, store.name)


def _describe(store: KeyValueStore, description: Mapping[str, Any], task: str) -> None:
    """Publishes the chief's description of the job, with which all other tasks must agree.

    Raises:
      RefusedError: the ps hold the model of another job; the previous chief's description differs.
    """
    previous = store.get(records.DESCRIPTION)
    if previous and store.get(records.READY):
        found = diff_configs(read_object(previous), description, "the job that they serve", task)
        if found:
            raise RefusedError(f"the ps still serve another job than {task}'s: {'; '.join(found)}; stop its processes.")
    store.set(records.DESCRIPTION, json.dumps(description))
