"""The plan of a job with its sizes: state and memory of each ps, memory of a worker, size of a checkpoint.

    planned = plan_job(job, cluster)
    planned.state_bytes                 # [1_942_096, 1_941_864]: variables, slots and counters on each ps

The training graph is built as a worker builds it, but not run: what it would hold is counted, not guessed.
"""

from __future__ import annotations

import dataclasses
import math

import tensorflow as tf

from ps_train.cluster.addresses.cluster import Cluster
from ps_train.commands.doctor.findings import OK, WARN, Finding
from ps_train.commands.doctor.host import own_memory_bytes
from ps_train.commands.doctor.wire import Traffic
from ps_train.config.file_systems import check_file_systems
from ps_train.config.job import Job
from ps_train.engine.step.train_step import TrainStep
from ps_train.engine.variables.plan import Plan, human_bytes
from ps_train.engine.variables.trace import ModelVariables, trace
from ps_train.engine.variables.variables import is_ps_device
from ps_train.modeling.load_model import load_model, use_flags
from ps_train.modeling.splits import training_source
from ps_train.saved.export.export import prepare_export
from ps_train.training.joining.model_check import check_model
from ps_train.training.joining.model_directory import check_model_dir
from ps_train.training.joining.prepare import step_to_show

_LARGE_IMBALANCE = 2.0
_WORKER_COPIES = 3
"""Copies of the dense variables in a worker: the pulled values, the gradients, and those on their way."""


@dataclasses.dataclass(frozen=True)
class PlannedJob:
    """The plan of a job and its sizes in bytes.

    Attributes:
      state_bytes: variables, slots and counters on each ps.
      checkpoint_bytes: one checkpoint.
      ps_memory: of each ps, an estimate: of its process, or of what it adds to the process of a worker.
      worker_memory: of a worker with its data, an estimate.
      traffic: dense values that a step pulls, by what codecs encode; it pushes as many.
      processes: the task of each process that is a ps, by the index of the ps.
    """

    plan: Plan
    state_bytes: list[int]
    checkpoint_bytes: int
    ps_memory: list[int]
    worker_memory: int
    traffic: Traffic
    processes: tuple[str, ...]

    def findings(self) -> list[Finding]:
        """Returns the finding about the plan."""
        variables = self.plan.bytes_per_ps()
        slots = sum(self.state_bytes) - sum(variables)
        text = (
            f"{human_bytes(sum(variables))} of variables, {human_bytes(slots)} of slots and counters on "
            f"{self.plan.num_ps} ps; a checkpoint takes {human_bytes(self.checkpoint_bytes)}"
        )
        if 0 in variables and any(variables):
            idle = variables.count(0)
            advice = f"use {len(variables) - idle} ps"
            return [Finding(WARN, "plan", f"{text}; {idle} ps hold no variable", advice)]
        if self.plan.imbalance() > _LARGE_IMBALANCE:
            text += f"; the fullest ps holds {self.plan.imbalance():.1f} times the mean"
            return [Finding(WARN, "plan", text, "a variable cannot be cut further; use fewer ps")]
        return [Finding(OK, "plan", text)]

    def needs(self, names: list[str]) -> dict[str, int]:
        """Returns the memory of some tasks by their names."""
        of_ps = dict(zip(self.processes, self.ps_memory, strict=True))
        return {name: of_ps.get(name, 0) + (0 if name.startswith("ps:") else self.worker_memory) for name in names}


def plan_job(job: Job, cluster: Cluster) -> PlannedJob:
    """Loads and checks the model as the chief does, and plans it; raises the errors of the job itself.

    Args:
      job: the job, with host lists.
      cluster: of these host lists.
    """
    empty = own_memory_bytes()
    model = load_model(job.model, job.model_arguments(), job.sources)
    use_flags(model, job)
    check_file_systems(job)
    check_model_dir(job)
    if job.export_dir:
        prepare_export(job.export_dir)
    source = training_source(model, job)
    variables = trace(model, source, job.min_batch_size, job.seed)
    check_model(model, job, variables)
    one_step = dataclasses.replace(job, steps_per_run="1")  # more steps share these variables
    plan, step = step_to_show(one_step, cluster, model, source, variables)
    state, stored, tables = _state_bytes(plan, step)
    own = own_memory_bytes()
    dense = [_dense_bytes(variables, plan, ps) for ps in range(plan.num_ps)]
    limit = job.max_snapshot_mib << 20
    copied = [everything - rows for everything, rows in zip(stored, tables, strict=True)]
    memory = []
    for ps, count in enumerate(state):
        largest = max((piece.bytes for piece in plan.slices_on(ps)), default=0)
        copies = (copied[ps] if max(copied) <= limit else 0) + min(tables[ps], limit)
        own_process = 0 if cluster.ps_tasks[ps].job_name != "ps" else empty
        memory.append(own_process + count + copies + largest + 2 * cluster.num_replicas * dense[ps])
    worker = own + _WORKER_COPIES * sum(dense)
    elsewhere = plan.num_ps - (cluster.ps_of(cluster.chief) is not None)  # each ps with an even share
    traffic = Traffic(*(count * elsewhere // plan.num_ps for count in _traffic(variables, plan)))
    processes = tuple(map(str, cluster.ps_tasks))
    return PlannedJob(plan, state, sum(stored), memory, worker, traffic, processes)


def _traffic(variables: ModelVariables, plan: Plan) -> Traffic:
    dense, sparse = set(variables.dense_trainable()), set(variables.sparse())
    pieces = [piece for piece in plan.slices if piece.variable in dense]
    pulled = [piece for piece in pieces if piece.dtype == "float32"]
    pushed = [piece for piece in pulled if piece.variable not in sparse]
    total = sum(piece.bytes for piece in pieces)
    return Traffic(total, sum(piece.size for piece in pulled), sum(piece.size for piece in pushed))


def _dense_bytes(variables: ModelVariables, plan: Plan, ps: int) -> int:
    """Returns the bytes of the variables on a ps that travel whole."""
    dense = set(variables.dense_trainable())
    return sum(piece.bytes for piece in plan.slices_on(ps) if piece.variable in dense)


def _state_bytes(plan: Plan, step: TrainStep) -> tuple[list[int], list[int], list[int]]:
    """Returns the bytes of all variables on each ps, of those in a checkpoint, and of those that it does not copy."""
    held: dict[tuple[int, str], int] = {}
    for op in step.graph.get_operations():
        if op.type == "VarHandleOp" and is_ps_device(tf.DeviceSpec.from_string(op.device)):
            name = op.get_attr("shared_name").decode() or op.name
            held[_ps_of(op.device), name] = _bytes_of(tf.TensorShape(op.get_attr("shape")), op.get_attr("dtype"))
    stored = [0] * plan.num_ps
    for entry in step.ps.entries:
        if not entry.follower:
            variable = entry.variable
            stored[_ps_of(variable.device)] += _bytes_of(variable.shape, variable.dtype)
    tables = [0] * plan.num_ps
    for old in step.ps.old_rows:
        tables[_ps_of(old.device)] += old.rows * old.row_bytes
    return (
        [sum(count for (ps, _), count in held.items() if ps == index) for index in range(plan.num_ps)],
        stored,
        tables,
    )


def _bytes_of(shape: tf.TensorShape, dtype: tf.DType) -> int:
    return math.prod(shape.as_list()) * dtype.base_dtype.size


def _ps_of(device: str) -> int:
    return int(device.partition("/task:")[2].partition("/")[0] or 0)
