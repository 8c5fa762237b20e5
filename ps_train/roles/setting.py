"""What a training task has found out before its training thread begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ps_train.cluster.board import Board
from ps_train.cluster.spec import Cluster
from ps_train.cluster.whereabouts import Whereabouts
from ps_train.config import Job, Task
from ps_train.console import Console
from ps_train.data.shard import Source
from ps_train.graph.plan import Plan
from ps_train.graph.trace import Traced
from ps_train.model import Model
from ps_train.roles.heart import Heart
from ps_train.roles.supervise import Attention


@dataclasses.dataclass(frozen=True)
class Setting:
    """All that a training thread works with."""

    job: Job
    task: Task
    whereabouts: Whereabouts
    cluster: Cluster
    model: Model
    source: Source
    traced: Traced
    plan: Plan
    description: Mapping[str, Any]
    boards: list[Board]
    heart: Heart
    attention: Attention
    console: Console
    directory: str
