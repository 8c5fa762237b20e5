"""The preparation of a training task: all that it finds and checks before it calls another process.

    prepared = prepare(job, task, load_model(job.model, job.model_arguments(), job.sources))
    check_as_chief(prepared)

The model's code runs once here, in a scratch graph.  If its variables are known, it runs in the graph of the step:

    prepared = prepare_known(job, task, model, variables)
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ps_train.base import gc_control
from ps_train.base.console import human_bytes
from ps_train.base.errors import ConfigError, ModelError
from ps_train.base.network_interfaces import is_loopback
from ps_train.base.process_stats import memory_limit
from ps_train.cluster.addresses.cluster import Cluster
from ps_train.cluster.membership.job_diff import job_fingerprint
from ps_train.cluster.membership.preparing import told_as_preparing
from ps_train.cluster.sessions.server import device_of
from ps_train.cluster.topology import Topology, known_topology
from ps_train.config.job import Job, Task
from ps_train.config.job_values import described
from ps_train.config.validators import AUTO_WEIGHTS, parse_weights
from ps_train.data.pipeline import DataSource
from ps_train.data.shards.shard_readers import described_shards
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.parts.rack import Rack
from ps_train.engine.step.towers import Towers, find_towers
from ps_train.engine.step.train_step import TrainStep, build_train_step
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.variables.plan import Plan, VariableSpec, make_plan
from ps_train.engine.variables.trace import ModelVariables, trace
from ps_train.modeling.model import Model, ignores_data_dir
from ps_train.modeling.splits import training_source
from ps_train.saved.export.export import served_features
from ps_train.training.tasks.dtype_check import check_compute_dtype
from ps_train.training.tasks.model_check import check_model, warn_of_not_finite
from ps_train.training.tasks.warm_starts import FoundWarmStart, find_warm_start

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A training task before it calls another process.

    Attributes:
      cluster: the cluster at the start of this task.
      model: the user's model.
      source: its training data.
      variables: its variables, as the trace found them.
      plan: placement of the variables on the ps.
      towers: the devices among which this task divides its batches.
      description: properties of the job on which all tasks must agree.
      built: the graph of this task's replica if it is built already.
      warm_start: what the variables take of another training's checkpoint; None for nothing, and if this task is not
        the chief.
      weights: the weights of the ps that the chief has measured, and why; None unless the job asks for that.
      topology: the racks of the workers; None without racks, and before the tasks have told theirs (`--rack`).
    """

    job: Job
    task: Task
    cluster: Cluster
    model: Model
    source: DataSource
    variables: ModelVariables
    plan: Plan
    towers: Towers
    description: Mapping[str, Any]
    built: BuiltStep | None = None
    warm_start: FoundWarmStart | None = None
    weights: MeasuredWeights | None = None
    topology: Topology | None = None

    @property
    def is_chief(self) -> bool:
        """True if this task is the chief."""
        return self.task == self.cluster.chief

    @property
    def replica(self) -> Replica:
        """The replica that this task trains."""
        return Replica.of(self.cluster, self.task)

    def step(self) -> BuiltStep:
        """Returns the graph of this task's replica, which is built unless it is there."""
        if self.built is not None:
            return self.built
        spec = GraphSpec(
            self.job,
            self.model,
            self.source,
            self.variables,
            self.plan,
            self.replica,
            device_of(self.task, self.cluster),
            self.towers,
        )
        features = [] if self.topology is None else [Rack(spec, self.topology.place(self.task))]
        gc_control.collect_if_disabled()  # the graphs of trace and check
        began = time.monotonic()
        return BuiltStep(build_train_step(spec, features), time.monotonic() - began)


class MeasuredWeights(NamedTuple):
    """Weights as a text, "" for even ones, and a line about how they were found; "" if another task has found them."""

    text: str
    reason: str


class BuiltStep(NamedTuple):
    """The graph of a replica, and the seconds that building it took."""

    step: TrainStep
    secs: float


def prepare(job: Job, task: Task, model: Model) -> Prepared:
    """Runs a model's code once and places its variables, while each ps hears that the task lives.

    Raises:
      ModelError: the model cannot be trained.
      ConfigError: the job is not possible on this machine, or with this data.
    """
    source = training_source(model, job)
    with told_as_preparing(job, task):
        return _placed(job, task, model, source, trace(model, source, job.min_batch_size, job.seed))


def prepare_known(job: Job, task: Task, model: Model, variables: ModelVariables) -> Prepared:
    """Places a model's variables and builds the step with them, while each ps hears that the task lives.

    Args:
      job: as in `prepare`.
      task: as in `prepare`.
      model: the user's model.
      variables: its variables, which a trace would find.

    Raises:
      ModelError, ConfigError: as `prepare`; or the model makes other variables.
    """
    if job.rack and not job.rack_file:
        raise ConfigError(f"{described(job, 'rack')} is not possible with this program: use --rack_file.")
    if job.ps_weights == AUTO_WEIGHTS:
        raise ConfigError(f"{described(job, 'ps_weights')} is not possible with this program: give numbers.")
    with told_as_preparing(job, task):
        prepared = _placed(job, task, model, training_source(model, job), variables)
        return dataclasses.replace(prepared, built=prepared.step())


def _placed(job: Job, task: Task, model: Model, source: DataSource, variables: ModelVariables) -> Prepared:
    cluster = Cluster.of(job)
    description = {**job_fingerprint(job), **variables.described(), **described_shards(job, source)}
    topology = known_topology(job, task, cluster)
    plan = plan_of(job, variables.specs(), cluster, topology)
    check_memory(plan, cluster, memory_limit())
    check_batch(job, source.count, variables.example_bytes, memory_limit())
    if topology is not None:
        description |= topology.described()
    return Prepared(
        job, task, cluster, model, source, variables, plan, find_towers(job), description, topology=topology
    )


def check_memory(plan: Plan, cluster: Cluster, limit: float | None) -> None:
    """Refuses variables that the memory of this machine cannot hold, where its ps are known to be here.

    Args:
      plan: the variables of each ps.
      cluster: the addresses of the ps; those of the loopback are on this machine.
      limit: bytes of memory that processes here may use; None where that is not known.

    Raises:
      ModelError: the variables need more.
    """
    here = [ps for ps, address in enumerate(cluster.ps) if is_loopback(address.host)]
    needed = sum(load for ps, load in enumerate(plan.bytes_per_ps()) if ps in here)
    if limit is None or needed <= limit:
        return
    sizes: dict[str, int] = {}
    for piece in plan.slices:
        sizes[piece.variable] = sizes.get(piece.variable, 0) + piece.bytes
    largest = max(sizes, key=lambda name: sizes[name])
    raise ModelError(
        f"the variables take {human_bytes(needed)} on the ps of this machine, which has {human_bytes(int(limit))} "
        f"of memory; the largest is {largest} with {human_bytes(sizes[largest])}: use fewer rows or columns, or ps on "
        "more machines."
    )


def check_batch(job: Job, examples: int, example_bytes: int, limit: float | None) -> None:
    """Refuses batches that the memory of this machine cannot hold.

    Args:
      job: has the smallest batch size.
      examples: number of examples of the data; negative if it is not known.
      example_bytes: bytes that one of them takes at least.
      limit: bytes of memory that this process may use; None where that is not known.

    Raises:
      ConfigError: the smallest batch needs more.
    """
    size = job.min_batch_size
    if job.epochs and examples >= 0:
        size = min(size, job.epochs * examples)
    if limit is not None and size * example_bytes > limit:
        raise ConfigError(
            f"{described(job, 'batch_size')} needs {human_bytes(size * example_bytes)} for a batch, and this machine "
            f"has {human_bytes(int(limit))} of memory: use a smaller one."
        )


def plan_of(
    job: Job,
    specs: Sequence[VariableSpec],
    cluster: Cluster,
    topology: Topology | None,
    measured: Sequence[float] | None = None,
) -> Plan:
    """Returns the plan of a job's variables.

    Args:
      job: gives `ps_placement` and `ps_weights`.
      specs: the variables.
      cluster: gives the number of ps.
      topology: the racks, where `ps_placement` needs them.
      measured: the weights of the ps that the chief has measured, empty for even ones; None: those of the job.
    """
    num_ps, weights = len(cluster.ps), parse_weights(job.ps_weights) if measured is None else measured
    if job.ps_placement == "near" and topology is not None:
        return make_plan(specs, num_ps, only=topology.ps_of_largest(num_ps), weights=weights)
    return make_plan(specs, num_ps, weights=weights)


def with_warm_start(prepared: Prepared, directory: str) -> Prepared:
    """Returns a chief with what its job's variables take of another training's checkpoint.

    Args:
      prepared: the chief.
      directory: its local model directory.

    Raises:
      ConfigError: checkpoint, map and model do not fit together.
    """
    with told_as_preparing(prepared.job, prepared.task):
        return dataclasses.replace(prepared, warm_start=find_warm_start(prepared.job, prepared.variables, directory))


def check_as_chief(prepared: Prepared) -> None:
    """Checks what only the chief needs: the methods of the model, test data, features to export, values of the data.

    Raises:
      ModelError, ConfigError: the training would fail later, at its end perhaps.
    """
    job, model, source, variables = prepared.job, prepared.model, prepared.source, prepared.variables
    with told_as_preparing(job, prepared.task):
        check_model(model, job, variables)
        check_compute_dtype(model, job, variables, source)
    if job.export_dir:
        served_features(source)
    warn_of_not_finite("train", source.loaded)
    if job.data_dir and ignores_data_dir(model):
        log.warning("%s has no effect: the model's data() does not read it", described(job, "data_dir"))
