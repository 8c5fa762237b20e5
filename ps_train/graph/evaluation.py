"""Assembles the graph that scores the values which are on the ps: test data, values, rows, metrics.

    scoring = build_scoring(model, source, traced, plan, worker_device, WHOLE)
    metrics = measure(session, scoring)             # {"accuracy": 0.97}

No table is ever whole on a worker: its rows are looked up as in training.  Other values are pulled once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.cluster.calls import LONG_CALL
from ps_train.data.data_shard import DataShard
from ps_train.data.pipeline import Batches, DataSource, evaluation_batches
from ps_train.data.stream import data_error
from ps_train.graph.forward import substituting_variables, with_lookups
from ps_train.graph.metric_sums import MetricSums, make_metric_sums
from ps_train.model import Model
from ps_train.placement.call_started import after_all_started
from ps_train.placement.global_step import overriding_global_step, pulled_step
from ps_train.placement.plan import Plan
from ps_train.placement.trace import ModelVariables
from ps_train.placement.variables import make_variables, ps_device
from ps_train.tables.row_exchange import RowExchange
from ps_train.tables.vocabulary import make_vocabularies
from ps_train.transport.dense import Transport

BATCH = 512

_PLACE = "ps-train/scoring"


@dataclasses.dataclass(frozen=True)
class EvalGraph:
    """A graph with a model's metrics of its test data.

    Attributes:
      metrics: name to `(value, update)`, as the model gives them.
      totals: what they add up, if that is all they do.
    """

    graph: tf.Graph
    batches: Batches
    metrics: Mapping[str, tuple[tf.Tensor, Any]]
    totals: MetricSums | None = None


def build_eval_graph(
    model: Model, source: DataSource, traced: ModelVariables, plan: Plan, worker_device: str, share: DataShard
) -> EvalGraph | None:
    """None where the model has no test data or no metrics.

    Args:
      source: of the test split.
      share: of its examples.
    """
    with tf.Graph().as_default() as graph:
        data = source.get()
        if data is None:
            return None
        variables = make_variables(traced, plan, seed=0)
        now = [_empty_push(ps) for ps in range(plan.num_ps)]
        with tf.device(ps_device(0)):
            clock = v1.train.create_global_step()
        with tf.device(worker_device):
            with tf.device("/device:CPU:0"):
                batches = evaluation_batches(data, BATCH, share)
            pulled = Transport(plan, traced, variables).pull(now)
            copies = {name: _copy(name, value) for name, value in pulled.items()}
            vocabularies = make_vocabularies(traced, plan, variables, seed=0, training=False)
            exchange = RowExchange(plan, traced.tables(), variables, vocabularies)
            fetched = with_lookups(lambda wanted: exchange.pull(wanted, now), traced)
            step = _copy("global_step", pulled_step(clock, now[0]))
            # A place of their own for local variables and tables: training may go on with those of the same names.
            with (
                graph.container(_PLACE),
                substituting_variables(copies, variables) as build,
                overriding_global_step(step),
            ):
                with fetched:
                    outputs = model.forward(batches.features, training=False)
                build.adds_metrics = True
                before = {id(variable) for variable in v1.local_variables()}
                metrics = model.metrics(outputs, batches.labels)
            if traced.tables():  # else a call that a ps refuses would have taken a batch
                holders = sorted({piece.ps for name in traced.tables() for piece in plan.slices_of(name)})
                batches.taking._add_control_input(after_all_started(tf.constant(0), holders).op)
            totals = make_metric_sums([v for v in v1.local_variables() if id(v) not in before], share)
        return EvalGraph(graph, batches, metrics, totals) if metrics else None


def evaluate(session: v1.Session, scoring: EvalGraph) -> dict[str, float]:
    """The metrics over all batches; DataError where the data cannot be read."""
    run_batches(session, scoring)
    return metric_values(session, scoring)


def run_batches(session: v1.Session, scoring: EvalGraph) -> None:
    """All batches; DataError where the data cannot be read."""
    updates = [update for _, update in scoring.metrics.values()]
    with scoring.graph.as_default():
        session.run(v1.tables_initializer(), options=LONG_CALL)
        session.run(v1.local_variables_initializer())
    session.run(scoring.batches.initializer, scoring.batches.feeds(), LONG_CALL)
    while True:
        try:
            session.run(updates, options=LONG_CALL)
        except tf.errors.OutOfRangeError:
            break
        except tf.errors.InvalidArgumentError as error:
            raise data_error(error) or error from None


def metric_values(session: v1.Session, scoring: EvalGraph) -> dict[str, float]:
    """The metrics of what has been added up."""
    values = session.run({name: value for name, (value, _) in scoring.metrics.items()})
    return {name: float(value) for name, value in values.items()}


def _empty_push(ps: int) -> tf.Tensor:
    """There is nothing to wait for before values are read."""
    with tf.device(ps_device(ps)):
        return tf.zeros([])


def _copy(name: str, value: tf.Tensor) -> Any:
    collections = [v1.GraphKeys.LOCAL_VARIABLES]
    return v1.Variable(value, trainable=False, collections=collections, name=f"copies/{name}", use_resource=True)
