"""The preparation of a training task: all that it finds and checks before it calls another process.

    prepared = prepare(job, task, load_model(job.model, job.model_arguments(), job.sources))
    check_as_chief(prepared)

The model's code runs once here, in a scratch graph.  If its variables are known, it runs in the graph of the step:

    prepared, built = prepare_known(job, task, model, variables)

One who only looks at the chief's step, such as the doctor, needs no task:

    plan, step = step_to_show(job, cluster, model, source, variables)
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
from ps_train.cluster.topology import FLAT, Topology, known_topology
from ps_train.config.job import Job, Task
from ps_train.config.job_values import described
from ps_train.config.refusals import refuse
from ps_train.config.validators import parse_weights
from ps_train.data.pipeline import DataSource
from ps_train.data.shards.shard_readers import described_shards
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.parts.rack import racks_of
from ps_train.engine.step.towers import Towers, find_towers
from ps_train.engine.step.train_step import TrainStep, build_train_step
from ps_train.engine.updates.modes.base import Replica
from ps_train.engine.variables.plan import Plan, VariableSpec, make_plan
from ps_train.engine.variables.trace import ModelVariables, trace
from ps_train.modeling.load_model import ignores_data_dir, use_flags
from ps_train.modeling.model import Model
from ps_train.modeling.splits import training_source
from ps_train.saved.export.export import served_features
from ps_train.training.joining.dtype_check import check_compute_dtype
from ps_train.training.joining.model_check import check_model, warn_of_not_finite

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A training task before it calls another process.

    Attributes:
      cluster: the cluster at the start of this task.
      model: the user's model.
      source: its training data.
      variables: its variables, as the trace found them.
      topology: the racks of `rack_file`.
      towers: the devices among which this task divides its batches.
      description: properties of the job on which all tasks must agree.
    """

    job: Job
    task: Task
    cluster: Cluster
    model: Model
    source: DataSource
    variables: ModelVariables
    topology: Topology
    towers: Towers
    description: Mapping[str, Any]

    @property
    def is_chief(self) -> bool:
        """True if this task is the chief."""
        return self.task == self.cluster.chief

    @property
    def replica(self) -> Replica:
        """The replica that this task trains."""
        return Replica.of(self.cluster, self.task)

    @property
    def device(self) -> str:
        """The device of this task's part of a graph."""
        return device_of(self.task, self.cluster)

    def plan(self, measured: Sequence[float] | None = None) -> Plan:
        """Returns the plan of the job's variables.

        Args:
          measured: the weights of the ps that the chief has measured, empty for even ones; None: those of the job.
        """
        return _plan_of(self.job, self.variables.specs(), self.cluster, self.topology, measured)


class BuiltStep(NamedTuple):
    """The graph of a replica, and the seconds that building it took."""

    step: TrainStep
    secs: float


def build_step(prepared: Prepared, plan: Plan, topology: Topology = FLAT) -> BuiltStep:
    """Builds the graph of a task's replica.

    Args:
      prepared: the task.
      plan: placement of the variables on the ps.
      topology: the racks of the workers.
    """
    task = prepared.task
    spec = GraphSpec(
        prepared.job,
        prepared.model,
        prepared.source,
        prepared.variables,
        plan,
        prepared.replica,
        prepared.device,
        prepared.towers,
    )
    gc_control.collect_if_disabled()  # the graphs of trace and check
    began = time.monotonic()
    return BuiltStep(build_train_step(spec, racks_of(spec, topology, task)), time.monotonic() - began)


def prepare(job: Job, task: Task, model: Model) -> Prepared:
    """Runs a model's code once, while each ps hears that the task lives.

    Raises:
      ModelError: the model cannot be trained.
      ConfigError: the job is not possible on this machine, or with this data.
    """
    use_flags(model, job)
    source = training_source(model, job)
    with told_as_preparing(job, task):
        return _checked(job, task, model, source, trace(model, source, job.min_batch_size, job.seed))


def prepare_known(job: Job, task: Task, model: Model, variables: ModelVariables) -> tuple[Prepared, BuiltStep]:
    """Builds the step of a model whose variables are known, while each ps hears that the task lives.

    Nothing is agreed on with other tasks before, so the plan must follow from the job alone.

    Args:
      job: as in `prepare`.
      task: as in `prepare`.
      model: the user's model.
      variables: its variables, which a trace would find.

    Raises:
      ModelError, ConfigError: as `prepare`; or the model makes other variables.
    """
    refuse(job, program="this program")
    with told_as_preparing(job, task):
        prepared = _checked(job, task, model, training_source(model, job), variables)
        return prepared, build_step(prepared, prepared.plan(), prepared.topology)


def step_to_show(
    job: Job, cluster: Cluster, model: Model, source: DataSource, variables: ModelVariables
) -> tuple[Plan, TrainStep]:
    """Returns the plan of a job and the graph of its chief, which do not depend on this machine."""
    chief = cluster.chief
    plan = _plan_of(job, variables.specs(), cluster, known_topology(job, chief, cluster))
    spec = GraphSpec(job, model, source, variables, plan, Replica.of(cluster, chief), device_of(chief, cluster))
    return plan, build_train_step(spec)


def _checked(job: Job, task: Task, model: Model, source: DataSource, variables: ModelVariables) -> Prepared:
    cluster = Cluster.of(job)
    topology = known_topology(job, task, cluster)
    check_memory(_plan_of(job, variables.specs(), cluster, topology), cluster, memory_limit())
    check_batch(job, source.count, variables.example_bytes, memory_limit())
    description = {
        **job_fingerprint(job), **variables.described(), **described_shards(job, source), **topology.described()
    }  # fmt: skip
    return Prepared(job, task, cluster, model, source, variables, topology, find_towers(job), description)


def check_memory(plan: Plan, cluster: Cluster, limit: float | None) -> None:
    """Refuses variables that the memory of this machine cannot hold, where its ps are known to be here.

    Args:
      plan: the variables of each ps.
      cluster: the addresses of the ps; those of the loopback are on this machine.
      limit: bytes of memory that processes here may use; None where that is not known.

    Raises:
      ModelError: the variables need more.
    """
    loads = zip(plan.bytes_per_ps(), cluster.ps, strict=True)
    needed = sum(load for load, address in loads if is_loopback(address.host))
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


def _plan_of(
    job: Job,
    specs: Sequence[VariableSpec],
    cluster: Cluster,
    topology: Topology,
    measured: Sequence[float] | None = None,
) -> Plan:
    num_ps, weights = len(cluster.ps), parse_weights(job.ps_weights) if measured is None else measured
    ps = topology.ps_for(job.ps_placement, num_ps)
    return make_plan(specs, len(ps), weights=[weights[index] for index in ps] if weights else ()).on(ps, num_ps)


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
    for line in model.notes():
        log.warning("%s", line)
    if job.data_dir and ignores_data_dir(model):
        log.warning("%s has no effect: the model's data() does not read it", described(job, "data_dir"))
