"""What the ps hold for one replica's graph: the model's variables and vocabularies, and what is counted.

state = make_state(job, traced, plan, replica, update)
state.clocks[0]                      # TensorFlow's global step
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.graph.spec import GraphSpec
from ps_train.placement.plan import Plan
from ps_train.placement.trace import ModelVariables
from ps_train.placement.variables import make_variables, ps_device
from ps_train.tables.vocabulary import Vocabulary, make_vocabularies
from ps_train.updates.base import Replica, RunCounters, UpdateMode
from ps_train.updates.staleness import BINS


@dataclasses.dataclass(frozen=True)
class PsState:
    """A clock on each, what is counted, the stamps that a step reads first, the model's variables and
    vocabularies by the name of their slice, and what this replica pulled last where that is kept."""

    update_counts: list[Any]
    counters: RunCounters
    versions: list[tf.Tensor]
    variables: Mapping[str, Any]
    vocabularies: Mapping[str, Vocabulary]
    backups: Mapping[str, Any]


def make_ps_state(spec: GraphSpec, update: UpdateMode) -> PsState:
    """Makes the variables that the ps hold, in the present graph."""
    job, traced, plan, replica = spec.job, spec.variables, spec.plan, spec.replica
    clocks, counts = _clocks(plan.num_ps), _counts(replica.count)
    stamps = update.read_versions(clocks, replica)
    variables = make_variables(traced, plan, job.seed)
    vocabularies = make_vocabularies(traced, plan, variables, job.seed, training=True)
    backups = _backups(plan, traced, replica) if job.delay_compensation else {}
    return PsState(clocks, counts, stamps, variables, vocabularies, backups)


def _backups(plan: Plan, traced: ModelVariables, replica: Replica) -> dict[str, Any]:
    """A second copy of every slice that this replica pulls, beside the first."""
    made = {}
    for piece in plan.slices:
        if piece.variable in traced.dense_trainable() and piece.variable not in traced.state():
            with tf.device(ps_device(piece.ps)):
                name = f"ps_train/pulled_{replica.index}/{piece.name}"
                made[piece.name] = _zeros(name, tf.as_dtype(piece.dtype), piece.shape)
    return made


def _clocks(num_ps: int) -> list[Any]:
    """Counters of updates, one on each ps; the first is TensorFlow's global step."""
    clocks = []
    for ps in range(num_ps):
        with tf.device(ps_device(ps)):
            clocks.append(_zeros(f"ps_train/clock_{ps}", tf.int64) if ps else v1.train.create_global_step())
    return clocks


def _counts(replicas: int) -> RunCounters:
    with tf.device(ps_device(0)):
        return RunCounters(
            _zeros("ps_train/examples", tf.float64),
            _zeros("ps_train/skipped", tf.int64),
            _zeros("ps_train/dropped", tf.int64),
            _zeros("ps_train/staleness", tf.int64, [replicas, BINS]),
            _zeros("ps_train/waiting", tf.float64, [replicas, 2]),
        )


def _zeros(name: str, dtype: tf.DType, shape: Sequence[int] = ()) -> Any:
    return v1.get_variable(name, shape, dtype, v1.zeros_initializer(), trainable=False, use_resource=True)
