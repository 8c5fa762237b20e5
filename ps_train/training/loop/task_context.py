"""The context of a training task, complete before its training thread begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ps_train.base.console import Console
from ps_train.base.signals import MainThreadEvents
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.addresses.resolver import ClusterResolver
from ps_train.cluster.membership.heartbeat import Heartbeat
from ps_train.cluster.membership.kv_store import KeyValueStore
from ps_train.cluster.membership.telemetry import TelemetrySource
from ps_train.cluster.sessions.server import device_of
from ps_train.config.job import Job, Task
from ps_train.data.pipeline import DataSource
from ps_train.engine.step.spec import GraphSpec
from ps_train.engine.step.towers import ONE_TOWER, Towers
from ps_train.engine.updates.base import Replica
from ps_train.engine.variables.plan import Plan
from ps_train.engine.variables.trace import ModelVariables
from ps_train.modeling.model import Model
from ps_train.observe.status.observer import JobObserver


@dataclasses.dataclass(frozen=True)
class TrainingContext:
    """The objects that a training thread works with.

    Attributes:
      resolver: current addresses of the ps.
      cluster: the cluster at the start of this task.
      source: the training data.
      variables: the model's variables.
      plan: placement of the variables on the ps.
      description: properties of the job on which all tasks must agree.
      stores: the key-value store of each ps.
      events: events that wake the main thread.
      directory: the model directory; "" unless this task is the chief.
      telemetry: the measurements of this task.
      observer: the observer of the job, in the chief; else None.
      towers: the devices among which this task divides its batches.
    """

    job: Job
    task: Task
    resolver: ClusterResolver
    cluster: Cluster
    model: Model
    source: DataSource
    variables: ModelVariables
    plan: Plan
    description: Mapping[str, Any]
    stores: list[KeyValueStore]
    heartbeat: Heartbeat
    events: MainThreadEvents
    console: Console
    directory: str
    telemetry: TelemetrySource
    observer: JobObserver | None = None
    towers: Towers = ONE_TOWER

    @property
    def is_chief(self) -> bool:
        """True if this task is the chief."""
        return self.task == self.cluster.chief

    def graph_spec(self, replica: Replica) -> GraphSpec:
        """Returns the specification of the graph of this task's replica."""
        device = device_of(self.task)
        return GraphSpec(self.job, self.model, self.source, self.variables, self.plan, replica, device, self.towers)


@dataclasses.dataclass(frozen=True)
class Generation:
    """The generation in which a task trains: an unbroken life of the model's state on the ps.

    Attributes:
      generation: its random name; "" if the task does not train in one.
      run_id: id of the run; "" before the first generation.
      since: time at which the task entered it, in seconds of a monotonic clock.
    """

    generation: str
    run_id: str
    since: float
