"""The graph that evaluates the values on the ps: test data, values, rows, metrics.

    eval_graph = build_eval_graph(model, source, model_variables, plan, worker_device, WHOLE)
    metrics = evaluate(session, eval_graph)         # {"accuracy": 0.97}

A table is never whole on a worker; its rows are looked up as in training.  Other values are pulled once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import add_control_inputs
from ps_train.cluster.sessions.calls import LONG_CALL
from ps_train.config.job import Job
from ps_train.config.slice_names import slice_metric
from ps_train.data.data_shard import WHOLE, DataShard
from ps_train.data.named_inputs import label_error
from ps_train.data.pipeline import Batches, DataSource, evaluation_batches
from ps_train.data.split import INFINITE, UNKNOWN, endless
from ps_train.data.stream import Stream, data_error, with_any_bytes
from ps_train.engine.step.forward import substituting_variables, with_lookups
from ps_train.engine.step.metric_sums import MetricSums, make_count, make_metric_sums
from ps_train.engine.step.slices import NO_SLICES, SliceMetrics, Slices, count_values, slice_keys, slice_metrics
from ps_train.engine.transport.dense import Transport
from ps_train.engine.transport.row_exchange import RowExchange
from ps_train.engine.transport.vocabulary import make_vocabularies
from ps_train.engine.variables.call_started import after_all_started
from ps_train.engine.variables.global_step import overriding_global_step, pulled_step
from ps_train.engine.variables.plan import Plan
from ps_train.engine.variables.trace import ModelVariables
from ps_train.engine.variables.user_variables import ModelBuild
from ps_train.engine.variables.variables import input_resources, make_global_step, make_variables, on_worker, ps_device
from ps_train.modeling.model import Model

BATCH = 512
"""Examples in a batch of the test data."""

log = logging.getLogger(__name__)

_LEAST_EXAMPLES = 100_000

_CONTAINER = "ps-train/scoring"


@dataclasses.dataclass(frozen=True)
class EvalLimit:
    """The end of scoring a test split that may never end: after so many examples, and not before so many seconds.

    A split whose number of examples is known is scored to its end.

    Attributes:
      examples: the least number of examples.
      secs: the least time.
    """

    examples: int
    secs: float

    @classmethod
    def of(cls, job: Job, trained: float, shards: int = 1) -> EvalLimit:
        """Returns the limit for one of some shards, after a training with so many examples."""
        return cls(-(-max(_LEAST_EXAMPLES, int(trained)) // shards), job.finish_timeout_secs)

    def is_reached(self, examples: float, since: float) -> bool:
        """Returns True if so many examples, begun at this monotonic time, are enough."""
        return examples >= self.examples and time.monotonic() - since >= self.secs


@dataclasses.dataclass(frozen=True)
class EvalGraph:
    """A graph with a model's metrics on its test data.

    Attributes:
      batches: the batches of the test data.
      metrics: name to `(value, update)`, as the model returns them.
      count: local variable with the number of examples that the metrics are of.
      metric_sums: the totals behind the metrics; None if these cannot be put together.
      pull: copies the values on the ps to the worker, once for all batches; None if the graph has the values.
      slices: the metrics of parts of the test data.
      field: the field of the features that divides the test data; "" for none.
    """

    graph: tf.Graph
    batches: Batches
    metrics: Mapping[str, tuple[tf.Tensor, Any]]
    count: Any
    metric_sums: MetricSums | None = None
    pull: tf.Operation | None = None
    slices: Sequence[SliceMetrics] = ()
    field: str = ""


def named_batches(source: DataSource, data: Any, shard: DataShard = WHOLE) -> Batches:
    """Returns the batches of the test data, which have the name of their source."""
    return dataclasses.replace(evaluation_batches(data, BATCH, shard), name=source.name)


def build_eval_graph(
    model: Model,
    source: DataSource,
    model_variables: ModelVariables,
    plan: Plan,
    worker_device: str,
    shard: DataShard,
    slices: Slices = NO_SLICES,
) -> EvalGraph | None:
    """Builds the graph that evaluates the values on the ps.

    Args:
      model: the user's model.
      source: the test split.
      model_variables: as traced for the training.
      plan: the ps of each variable.
      worker_device: device of the worker that evaluates.
      shard: the shard of the test split to score.
      slices: the parts of the test data that have metrics of their own.

    Returns:
      The graph; None if the model has no test data or no metrics.
    """
    with tf.Graph().as_default() as graph:
        data = source.get()
        if data is None:
            return None
        variables = make_variables(model_variables, plan, seed=None)
        after = [_no_dependency(ps) for ps in range(plan.num_ps)]
        with tf.device(ps_device(0)):
            update_count = make_global_step()
        with on_worker(worker_device):
            with tf.device("/device:CPU:0"):
                with input_resources(worker_device):
                    batches = named_batches(source, data, shard)
                count = make_count()
            copies = _Copies()
            values = Transport(plan, model_variables, variables).pull(after, received=copies.of)
            step = copies.of(pulled_step(update_count, after[0]))
            vocabularies = make_vocabularies(model_variables, plan, variables, seed=0, training=False)
            exchange = RowExchange(plan, model_variables.tables(), variables, vocabularies)
            lookups = with_lookups(
                lambda requests: exchange.pull(requests, after),
                model_variables,
                vocabularies=exchange.of_vocabularies(after),
            )
            substitution = substituting_variables(values, variables)
            metrics, of_slices, metric_variables = _build_metrics(model, batches, substitution, lookups, step, slices)
            _start_with_all_ps(batches, model_variables, plan)
            sums = make_metric_sums(count, metric_variables, shard, has_own_batches=isinstance(data, Stream))
        if not metrics:
            return None
        return EvalGraph(graph, batches, metrics, count, sums, tf.group(*copies.made), of_slices, slices.field)


def _build_metrics(
    model: Model,
    batches: Batches,
    substitution: contextlib.AbstractContextManager[ModelBuild],
    lookups: contextlib.AbstractContextManager[Any],
    step: Any,
    slices: Slices,
) -> tuple[Mapping[str, tuple[tf.Tensor, Any]], list[SliceMetrics], list[Any]]:
    """Returns the model's metrics, those of slices, and the local variables that they made."""
    # Training may go on with local variables and lookup tables of the same names, so these are in another container.
    container = v1.get_default_graph().container(_CONTAINER)
    with container, substitution as build, overriding_global_step(step), lookups:
        outputs = model.forward(batches.features, False)
        build.adds_metrics = True
        before = {id(variable) for variable in v1.local_variables()}
        metrics = model.metrics(outputs, batches.labels)
        of_slices = slice_metrics(model, build, slices, batches, outputs) if metrics else []
    return metrics, of_slices, [variable for variable in v1.local_variables() if id(variable) not in before]


def _start_with_all_ps(batches: Batches, model_variables: ModelVariables, plan: Plan) -> None:
    """Makes a call read a batch only after all ps with tables have begun; a refused call must not consume a batch."""
    if model_variables.tables():
        table_ps = sorted({piece.ps for name in model_variables.tables() for piece in plan.slices_of(name)})
        add_control_inputs(batches.get_next_op, [after_all_started(tf.constant(0), table_ps).op])


def evaluate(session: v1.Session, eval_graph: EvalGraph, limit: EvalLimit | None = None) -> dict[str, float]:
    """Returns the metrics over all batches; {} without an example.

    Raises:
      DataError: the data cannot be read.
      ModelError: the data repeat themselves.
    """
    run_batches(session, eval_graph, limit)
    return metric_values(session, eval_graph)


def run_batches(session: v1.Session, eval_graph: EvalGraph, limit: EvalLimit | None = None) -> None:
    """Adds all batches to the metrics, which begin at zero.

    Args:
      session: a session of the graph.
      eval_graph: has the batches and the metrics.
      limit: the end of scoring data of an unknown number; None: their end.

    Raises:
      DataError: the data cannot be read.
      ModelError: the data repeat themselves.
    """
    batches = eval_graph.batches
    with eval_graph.graph.as_default():
        every = [eval_graph.metrics, *(one.metrics for one in eval_graph.slices)]
        updates = [update for metrics in every for _, update in metrics.values()]
        added = eval_graph.count.assign_add(tf.cast(batches.examples, tf.float64), read_value=True)
        session.run(v1.tables_initializer(), options=LONG_CALL)
        if eval_graph.pull is not None:
            session.run(eval_graph.pull, options=LONG_CALL)
        session.run(v1.local_variables_initializer())
    for _ in _calls(session, batches, added, updates, limit):
        pass


def find_slices(source: DataSource, field: str, limit: EvalLimit | None = None) -> Slices:
    """Returns slices for the most frequent values of a field in the test data, which are read once for this.

    Args:
      source: the test split; without one there are no slices.
      field: the field of the features; "" for no slices.
      limit: the end of data of an unknown number; None: their end.

    Raises:
      ConfigError: there is no such field, or it has a wrong type.
      DataError: the data cannot be read.
      ModelError: the data repeat themselves.
    """
    counts = dict[bytes, int]()
    with tf.Graph().as_default(), tf.device("/device:CPU:0"):
        data = source.get() if field else None
        if data is None:
            return NO_SLICES
        batches, count = named_batches(source, data), make_count()
        keys = slice_keys(batches.features, field)
        added = count.assign_add(tf.cast(batches.examples, tf.float64), read_value=True)
        with v1.Session(config=v1.ConfigProto(device_count={"GPU": 0})) as session:
            session.run([v1.tables_initializer(), v1.local_variables_initializer()])
            for found in _calls(session, batches, added, keys, limit):
                counts = count_values(counts, found)
    return Slices.of_counts(field, counts)


def _calls(
    session: v1.Session, batches: Batches, added: tf.Tensor, fetches: Any, limit: EvalLimit | None
) -> Iterator[Any]:
    """Yields what is fetched with each batch; `added` is the number of examples with those of the batch."""
    number = None if batches.cardinality is None else session.run(batches.cardinality)
    if number == INFINITE:
        raise endless(batches.name)
    session.run(batches.initializer, batches.feeds(), LONG_CALL)
    since = time.monotonic()
    while True:
        try:
            with with_any_bytes():
                examples, found = session.run([added, fetches], options=LONG_CALL)
        except tf.errors.OutOfRangeError:
            break
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError) as error:
            raise data_error(error) or label_error(error) or error from None
        yield found
        if number == UNKNOWN and limit is not None and limit.is_reached(examples, since):
            log.warning(
                "%s did not end within %d examples and %.0fs (finish_timeout_secs): the metrics are of these "
                "examples; remove .repeat() from data(), or use a larger --finish_timeout_secs",
                batches.name, examples, time.monotonic() - since,
            )  # fmt: skip
            break


def metric_values(session: v1.Session, eval_graph: EvalGraph) -> dict[str, float]:
    """Returns the present value of each metric by name; {} if they are of no example.

    The numbers of a metric that has several are named NAME/0, NAME/1, and so on.  Metrics of slices are named as by
    `slice_metric`; those of slices without examples are left out.
    """
    values, count = session.run([{name: value for name, (value, _) in eval_graph.metrics.items()}, eval_graph.count])
    counts = session.run([one.count for one in eval_graph.slices])
    if not count:
        log.warning("%s has no examples: there is no score; check --data_dir", eval_graph.batches.name)
        return {}
    found = {key: number for name, value in values.items() for key, number in numbers_of(name, value)}
    for one, examples in zip(eval_graph.slices, counts, strict=True):
        if not examples:
            continue
        values = session.run({name: value for name, (value, _) in one.metrics.items()})
        for name, value in values.items():
            for key, number in numbers_of(name, value):
                found[slice_metric(key, eval_graph.field, one.name)] = number
    return found


def numbers_of(name: str, value: Any) -> list[tuple[str, float]]:
    """Returns the numbers of a metric, each with its name: NAME, or NAME/0, NAME/1, and so on."""
    numbers = np.asarray(value)
    if numbers.ndim == 0:
        return [(name, float(numbers))]
    return [(f"{name}/{index}", float(number)) for index, number in enumerate(numbers.ravel())]


def _no_dependency(ps: int) -> tf.Tensor:
    """Returns a constant on a ps to read values after, because evaluation waits for nothing."""
    with tf.device(ps_device(ps)):
        return tf.zeros([])


class _Copies:
    """Copies of pulled tensors, in variables of the worker.

    Attributes:
      made: the operations that make the copies.
    """

    def __init__(self) -> None:
        self.made: list[tf.Operation] = []

    def of(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns the copy of a tensor.

        The tensor is not an initial value: TensorFlow walks through all that an initial value depends on.
        """
        copy = v1.Variable(
            lambda: tf.zeros(tensor.shape, tensor.dtype),
            trainable=False,
            collections=[],
            name=f"copies/{len(self.made)}",
            use_resource=True,
        )
        self.made.append(tf.raw_ops.AssignVariableOp(resource=copy.handle, value=tensor))
        return copy.read_value()
