"""Specification of the graph of one replica."""

from __future__ import annotations

import dataclasses

from ps_train.config.job import Job
from ps_train.data.pipeline import DataSource
from ps_train.engine.step.towers import ONE_TOWER, Towers
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.variables.plan import Plan
from ps_train.engine.variables.trace import ModelVariables
from ps_train.modeling.model import Model


@dataclasses.dataclass(frozen=True)
class GraphSpec:
    """The input of `build_train_step`.

    Attributes:
      job: the whole job; every task has the same one.
      model: the user's model.
      source: the training split.
      variables: the variables of the model, as the trace found them.
      plan: the ps of each variable.
      replica: the worker that the graph is for.
      device: the worker's device, such as `/job:worker/replica:0/task:1`.
      towers: the worker's towers.
    """

    job: Job
    model: Model
    source: DataSource
    variables: ModelVariables
    plan: Plan
    replica: Replica
    device: str
    towers: Towers = ONE_TOWER
