"""The training graph of one replica: batch, pull, forward, backward, push, update.

    step = build_train_step(spec)
    session.run(step.ops.train)

A model is built before, to find its variables (`trace.py`); `backward.py` builds it with the pulled values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.gauge import Gauge
from ps_train.cluster.sessions.calls import Fetches
from ps_train.config.job import Job
from ps_train.config.refusals import refuse
from ps_train.data.pipeline import derived_seed
from ps_train.engine.step.effects import wait_for_no_state
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.local_calls import LocalCalls
from ps_train.engine.step.parts.order import parts_of
from ps_train.engine.step.parts.step_part import Ahead, StepPart, StepParts, wrapped
from ps_train.engine.step.ps_state import make_ps_state
from ps_train.engine.step.ps_step import PsStep, build_ps_step
from ps_train.engine.step.repeated_section import RepeatedSection
from ps_train.engine.step.unroll import UnrolledCalls, UnrolledStep
from ps_train.engine.step.worker_step import WorkerStep, build_worker_step
from ps_train.engine.updates.modes.base import StepOps
from ps_train.engine.updates.modes.factory import make_update
from ps_train.engine.variables.precision import is_narrow
from ps_train.engine.variables.seeded_graph import SeededGraph
from ps_train.engine.variables.trace import ModelVariables
from ps_train.engine.variables.variables import on_worker
from ps_train.engine.variables.worker_state import LocalState, collect_local_state
from ps_train.modeling.replica import building_for


@dataclasses.dataclass(frozen=True)
class TrainStep:
    """A replica's training graph, and the operations and tensors that its worker runs and fetches.

    Attributes:
      parts: the features of the step.
      worker: the worker's part.
      ps: the ps's part.
      ops: the operations of the step, made by the update mode.
      calls: the steps of calls.
      local: the state that the model keeps on this worker.
      lockstep: True if all replicas make every step together.
      is_endless: True if the input never ends, and all batches have the same size.
    """

    graph: tf.Graph
    parts: StepParts
    worker: WorkerStep
    ps: PsStep
    ops: StepOps
    calls: UnrolledCalls
    local: LocalState
    lockstep: bool
    is_endless: bool
    _fetches: dict[str, Fetches] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def gauges(self) -> dict[Gauge, tf.Tensor]:
        """Returns tensors with the present values of what parts of the step show."""
        return {gauge: value for part in self.parts for gauge, value in part.gauges().items()}

    def steps_per_call(self, length: int) -> Fetches:
        """Returns the fetches of one call that makes several steps; the first time, the steps are added to the graph.

        Args:
          length: number of steps; 0 for the call that a session makes before all others, if there is one.

        Returns:
          "train": the operations of all steps.  "examples": number of examples of each step; empty for endless input
          in batches of one size, where no step is without examples.
        """

        def made() -> Fetches:
            steps = self.calls.steps(length)
            train = [op for step in steps for op in step.train] + self.calls.ends(length)
            examples = [] if self.is_endless else [step.examples for step in steps]
            return Fetches({"train": train, "examples": examples}, length)

        return self._once(f"steps {length}", made)

    def local_steps(self, count: int) -> Fetches:
        """Returns the fetches of a call of so many local steps; the first time, they are added to the graph."""
        return self._once(f"local {count}", lambda: _alone(self._local_calls.local, count, steps=count))

    def end_of_round(self) -> Fetches:
        """Returns the fetches of a call that makes the last step of a round, and its exchange; see `RoundEnd`."""
        return self._once("end", lambda: Fetches(self._local_calls.end._asdict(), 1))

    def whole_rounds(self, length: int, rounds: int = 1) -> Fetches:
        """Returns the fetches of a call that makes whole rounds of so many steps; the first time, it adds them."""

        def made() -> Fetches:
            return Fetches(self._local_calls.whole(length, rounds)._asdict(), length * rounds, rounds)

        return self._once(f"whole {length} {rounds}", made)

    def fronts(self, count: int) -> Fetches:
        """Returns the fetches of a call that reads so many batches of a round before its rows are pulled."""
        assert self._local_calls.front is not None, "the round begins with its batches"
        front = self._local_calls.front
        return self._once(f"fronts {count}", lambda: _alone(front, count, steps=0))

    def pull(self) -> Fetches:
        """Returns the fetches of a call that pulls the rows of a round whose batches are read."""
        return self._once("pull", lambda: Fetches({"train": self._local_calls.pull, "local": []}))

    @property
    def _local_calls(self) -> LocalCalls:
        assert isinstance(self.calls, LocalCalls), "the job has local steps"
        return self.calls

    def _once(self, call: str, make: Callable[[], Fetches]) -> Fetches:
        """Returns the fetches of a call, which are made the first time: a session looks through each of them once."""
        if call not in self._fetches:
            self._fetches[call] = make()
        return self._fetches[call]


def _alone(section: RepeatedSection, count: int, steps: int) -> Fetches:
    """Returns the fetches of a call that makes a section of the worker alone so many times."""
    train, feeds = section.call(count)
    return Fetches({"train": train, "local": []}, steps, feeds=feeds)


def build_train_step(spec: GraphSpec, features: Sequence[StepPart] = ()) -> TrainStep:
    """Builds the training graph of one replica.

    Args:
      spec: specification of the graph.
      features: the parts of the step that the job alone does not give, such as a rack.

    Raises:
      ConfigError: a field of the job is not possible with this model.
      ModelError: the model was not built as in its trace.
    """
    job, replica = spec.job, spec.replica
    _check_variables(job, spec.variables)
    update = make_update(job, replica.declared, spec.model.may_skip)
    parts = parts_of(spec, update, features)
    pusher = replica
    for part in parts:
        pusher = part.pusher(pusher)
    seed = derived_seed(job.seed, "replica", replica.index)
    with building_for(replica.index), SeededGraph(seed).as_default() as graph:
        state = make_ps_state(spec, update, pusher)
        with on_worker(spec.device), tf.device(spec.towers.home):
            worker = build_worker_step(spec, update, state, parts)
        ps, ops = build_ps_step(spec, update, state, parts, worker.received, pusher)

        def plain(step: UnrolledStep, ahead: Ahead) -> UnrolledCalls:
            return UnrolledCalls(step, spec.plan.num_ps)

        calls = wrapped(parts, "calls", plain)(UnrolledStep([*ops.train], worker.examples), worker.ahead)
        ops = dataclasses.replace(ops, train=calls.step.train)
        # A session fills them before its first pull.
        wait_for_no_state(v1.get_collection(v1.GraphKeys.TABLE_INITIALIZERS))
        return TrainStep(graph, parts, worker, ps, ops, calls, collect_local_state(), update.lockstep, job.is_endless)


def _check_variables(job: Job, variables: ModelVariables) -> None:
    dtypes = {name: tf.as_dtype(variables.variables[name].spec.dtype) for name in variables.with_gradient()}
    narrow = [name for name, dtype in dtypes.items() if is_narrow(dtype)]
    tables = list(variables.tables())
    plain = "" if tables else "no tables"
    refuse(job, tables=tables, plain=plain, assigned=list(variables.state()), narrow=narrow)
