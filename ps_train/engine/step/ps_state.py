"""The variables on the ps that one replica's graph uses.

state = make_ps_state(spec, update)
state.update_counts[0]               # TensorFlow's global step
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.config.batch_sizes import BatchSizes
from ps_train.engine.step.spec import GraphSpec
from ps_train.engine.transport.vocabulary import Vocabulary, make_vocabularies
from ps_train.engine.updates.base import Replica, UpdateMode
from ps_train.engine.updates.batch_size_control import BatchSizeSchedule
from ps_train.engine.updates.run_counters import RunCounters
from ps_train.engine.updates.staleness import BINS
from ps_train.engine.variables.plan import Plan
from ps_train.engine.variables.trace import ModelVariables
from ps_train.engine.variables.variables import make_variables, ps_device, zeros_variable


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
      backups: slice name to the variable that holds the values this replica pulled last; empty without
        delay compensation.
    """

    update_counts: list[Any]
    counters: RunCounters
    versions: list[tf.Tensor]
    variables: Mapping[str, Any]
    vocabularies: Mapping[str, Vocabulary]
    backups: Mapping[str, Any]


def make_ps_state(spec: GraphSpec, update: UpdateMode) -> PsState:
    """Makes the variables on the ps, in the default graph.

    Args:
      spec: specification of the replica's graph.
      update: the update mode, which reads the versions.
    """
    job, model_variables, plan, replica = spec.job, spec.variables, spec.plan, spec.replica
    update_counts, counters = _make_update_counts(plan.num_ps), _make_counters(replica.count, job.batch_sizes)
    versions = update.read_versions(update_counts, replica)
    variables = make_variables(model_variables, plan, job.seed)
    vocabularies = make_vocabularies(model_variables, plan, variables, job.seed, training=True)
    backups = _make_backups(plan, model_variables, replica) if job.delay_compensation else {}
    return PsState(update_counts, counters, versions, variables, vocabularies, backups)


def _make_backups(plan: Plan, model_variables: ModelVariables, replica: Replica) -> dict[str, Any]:
    """Makes a second variable for every slice that this replica pulls, on the same ps."""
    backups = {}
    for piece in plan.slices:
        if piece.variable in model_variables.dense_trainable() and piece.variable not in model_variables.state():
            with tf.device(ps_device(piece.ps)):
                name = f"ps_train/pulled_{replica.index}/{piece.name}"
                backups[piece.name] = zeros_variable(name, tf.as_dtype(piece.dtype), piece.shape)
    return backups


def _make_update_counts(num_ps: int) -> list[Any]:
    counts = []
    for ps in range(num_ps):
        with tf.device(ps_device(ps)):
            counts.append(zeros_variable(f"ps_train/clock_{ps}", tf.int64) if ps else v1.train.create_global_step())
    return counts


def _make_counters(replicas: int, sizes: BatchSizes) -> RunCounters:
    with tf.device(ps_device(0)):
        return RunCounters(
            zeros_variable("ps_train/examples", tf.float64),
            zeros_variable("ps_train/skipped", tf.int64),
            zeros_variable("ps_train/dropped", tf.int64),
            zeros_variable("ps_train/staleness", tf.int64, [replicas, BINS]),
            zeros_variable("ps_train/waiting", tf.float64, [replicas, 2]),
            BatchSizeSchedule(sizes) if sizes.is_range else None,
        )
