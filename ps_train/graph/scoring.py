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

from ps_train.cluster.calls import LONG
from ps_train.data.shard import Batches, Share, Source, evaluation_batches
from ps_train.data.stream import data_error
from ps_train.graph.begun import once_begun
from ps_train.graph.forward import in_place_of_variables, looking_up
from ps_train.graph.global_step import global_step_is, pulled_step
from ps_train.graph.plan import Plan
from ps_train.graph.tables import Exchange
from ps_train.graph.totals import Totals, totals_of
from ps_train.graph.trace import Traced
from ps_train.graph.transport import Transport
from ps_train.graph.variables import make_variables, ps_device
from ps_train.graph.vocabulary import make_vocabularies
from ps_train.model import Model

BATCH = 512

_PLACE = "ps-train/scoring"


@dataclasses.dataclass(frozen=True)
class Scoring:
    """A graph with a model's metrics of its test data.

    Attributes:
      metrics: name to `(value, update)`, as the model gives them.
      totals: what they add up, if that is all they do.
    """

    graph: tf.Graph
    batches: Batches
    metrics: Mapping[str, tuple[tf.Tensor, Any]]
    totals: Totals | None = None


def build_scoring(
    model: Model, source: Source, traced: Traced, plan: Plan, worker_device: str, share: Share
) -> Scoring | None:
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
        now = [_nothing(ps) for ps in range(plan.num_ps)]
        with tf.device(ps_device(0)):
            clock = v1.train.create_global_step()
        with tf.device(worker_device):
            with tf.device("/device:CPU:0"):
                batches = evaluation_batches(data, BATCH, share)
            pulled = Transport(plan, traced, variables).pull(now)
            copies = {name: _copy(name, value) for name, value in pulled.items()}
            vocabularies = make_vocabularies(traced, plan, variables, seed=0, training=False)
            exchange = Exchange(plan, traced.tables(), variables, vocabularies)
            fetched = looking_up(lambda wanted: exchange.pull(wanted, now), traced)
            step = _copy("global_step", pulled_step(clock, now[0]))
            # A place of their own for local variables and tables: training may go on with those of the same names.
            with graph.container(_PLACE), in_place_of_variables(copies, variables) as build, global_step_is(step):
                with fetched:
                    outputs = model.forward(batches.features, training=False)
                build.adds_metrics = True
                before = {id(variable) for variable in v1.local_variables()}
                metrics = model.metrics(outputs, batches.labels)
            if traced.tables():  # else a call that a ps refuses would have taken a batch
                holders = sorted({piece.ps for name in traced.tables() for piece in plan.of(name)})
                batches.taking._add_control_input(once_begun(tf.constant(0), holders).op)
            totals = totals_of([v for v in v1.local_variables() if id(v) not in before], share)
        return Scoring(graph, batches, metrics, totals) if metrics else None


def measure(session: v1.Session, scoring: Scoring) -> dict[str, float]:
    """The metrics over all batches; DataError where the data cannot be read."""
    add_up(session, scoring)
    return values_of(session, scoring)


def add_up(session: v1.Session, scoring: Scoring) -> None:
    """All batches; DataError where the data cannot be read."""
    updates = [update for _, update in scoring.metrics.values()]
    with scoring.graph.as_default():
        session.run(v1.tables_initializer(), options=LONG)
        session.run(v1.local_variables_initializer())
    session.run(scoring.batches.initializer, scoring.batches.feeds(), LONG)
    while True:
        try:
            session.run(updates, options=LONG)
        except tf.errors.OutOfRangeError:
            break
        except tf.errors.InvalidArgumentError as error:
            raise data_error(error) or error from None


def values_of(session: v1.Session, scoring: Scoring) -> dict[str, float]:
    """The metrics of what has been added up."""
    values = session.run({name: value for name, (value, _) in scoring.metrics.items()})
    return {name: float(value) for name, value in values.items()}


def _nothing(ps: int) -> tf.Tensor:
    """There is nothing to wait for before values are read."""
    with tf.device(ps_device(ps)):
        return tf.zeros([])


def _copy(name: str, value: tf.Tensor) -> Any:
    collections = [v1.GraphKeys.LOCAL_VARIABLES]
    return v1.Variable(value, trainable=False, collections=collections, name=f"copies/{name}", use_resource=True)
