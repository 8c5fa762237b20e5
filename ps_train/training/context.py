"""What a training task has found out before its training thread begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ps_train.cluster.resolver import ClusterResolver
from ps_train.cluster.spec import Cluster
from ps_train.config.job import Job
from ps_train.config.task import Task
from ps_train.coordination.heartbeat import Heartbeat
from ps_train.coordination.kv_store import KeyValueStore
from ps_train.data.pipeline import DataSource
from ps_train.model import Model
from ps_train.placement.plan import Plan
from ps_train.placement.trace import ModelVariables
from ps_train.runtime.console import Console
from ps_train.runtime.signals import MainThreadEvents


@dataclasses.dataclass(frozen=True)
class TrainingContext:
    """All that a training thread works with."""

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


@dataclasses.dataclass(frozen=True)
class Generation:
    """The unbroken life of the model's state on the ps in which a task trains, its run, and since when it trains."""

    generation: str
    run_id: str
    since: float
