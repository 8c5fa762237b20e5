"""The variables on the ps that one replica's graph uses.

state = make_ps_state(spec, update, pusher)
state.global_step
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.transport.vocabulary import Vocabulary, make_vocabularies
from ps_train.engine.updates.counters.run_counters import RunCounters
from ps_train.engine.updates.modes.base import Replica, UpdateMode
from ps_train.engine.updates.modes.staleness import BINS
from ps_train.engine.variables.old_rows import tables_copied_on_write
from ps_train.engine.variables.variables import make_global_step, make_variables, ps_device, zeros_variable


@dataclasses.dataclass(frozen=True)
class PsState:
    """The variables on the ps that one replica's graph uses.

    Attributes:
      update_counts: for each ps an int64 scalar variable there, the number of updates made; that of ps 0 is the global
        step.
      counters: counters of the whole run, on ps 0.
      versions: for each ps an int64 scalar there, read before the values of a step; see `UpdateMode.read_versions`.
      variables: slice name to variable of the model.
      vocabularies: slice name to vocabulary, for slices of tables with an open vocabulary.
      keeps_rows: names of the slices of tables whose old rows updates keep for checkpoints.
    """

    update_counts: list[Any]
    counters: RunCounters
    versions: list[tf.Tensor]
    variables: Mapping[str, Any]
    vocabularies: Mapping[str, Vocabulary]
    keeps_rows: frozenset[str]

    @property
    def global_step(self) -> Any:
        """The global step: the update count of ps 0."""
        return self.update_counts[0]


def make_ps_state(spec: GraphSpec, update: UpdateMode, pusher: Replica) -> PsState:
    """Makes the variables on the ps, in the default graph.

    Args:
      spec: specification of the replica's graph.
      update: the update mode, which reads the versions.
      pusher: the replica that the ps see.
    """
    job, model_variables, plan = spec.job, spec.variables, spec.plan
    update_counts, counters = _make_update_counts(plan.num_ps), _make_counters(pusher.count)
    versions = update.read_versions(update_counts, pusher)
    variables = make_variables(model_variables, plan, job.seed)
    keeps_rows = tables_copied_on_write(model_variables, plan)
    vocabularies = make_vocabularies(model_variables, plan, variables, job.seed, True, keeps_rows)
    return PsState(update_counts, counters, versions, variables, vocabularies, keeps_rows)


def _make_update_counts(num_ps: int) -> list[Any]:
    counts = []
    for ps in range(num_ps):
        with tf.device(ps_device(ps)):
            counts.append(zeros_variable(f"ps_train/clock_{ps}", tf.int64) if ps else make_global_step())
    return counts


def _make_counters(replicas: int) -> RunCounters:
    with tf.device(ps_device(0)):
        return RunCounters(
            zeros_variable("ps_train/examples", tf.float64),
            zeros_variable("ps_train/skipped", tf.int64),
            zeros_variable("ps_train/dropped", tf.int64),
            zeros_variable("ps_train/staleness", tf.int64, [replicas, BINS]),
            zeros_variable("ps_train/waiting", tf.float64, [replicas, 2]),
        )
