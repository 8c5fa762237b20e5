"""Values that are pulled ahead: each step's pull runs while the step before it is computed, also from call to call.

The end of a call makes the front of the next call's first step (`engine/step/pulled_batch.py`), and the worker keeps
what it has found.
"""

from __future__ import annotations

import dataclasses
import functools
import logging

import tensorflow as tf

from ps_train.config.job_values import described
from ps_train.engine.step.copied_nodes import READ_GATE, Gate, pull_gate
from ps_train.engine.step.graph_spec import GraphSpec
from ps_train.engine.step.parts.step_part import Ahead, MakeCalls, StepPart
from ps_train.engine.step.pulled_batch import Front, KeptPull
from ps_train.engine.step.unroll import NOTHING, WORK_GATE, Placed, UnrolledCalls, UnrolledStep, push_gate
from ps_train.engine.variables.variables import on_worker, ps_device

log = logging.getLogger(__name__)


class PullAhead(StepPart):
    """The part of a step whose values are pulled ahead (--prefetch_pulls).

    Args:
      spec: specification of the replica's graph.
    """

    def __init__(self, spec: GraphSpec) -> None:
        self._spec = spec

    def calls(self, calls: MakeCalls) -> MakeCalls:
        """Makes calls that begin with what was pulled in the call before."""
        job = self._spec.job

        def made(step: UnrolledStep, ahead: Ahead) -> UnrolledCalls:
            if not job.is_endless:  # the batch of the next call would be missing at the end
                ahead = dataclasses.replace(ahead, rows=[])
            with on_worker(self._spec.device), tf.device(self._spec.towers.home):
                return CallsAhead(step, self._spec.plan.num_ps, ahead, job.longest_call)

        return made


class CallsAhead(UnrolledCalls):
    """The steps of calls whose pulls run ahead.

    Args:
      step: the step that is copied.
      num_ps: number of ps.
      ahead: what it has read on the ps.
      most: maximum number of steps of a call.
    """

    def __init__(self, step: UnrolledStep, num_ps: int, ahead: Ahead, most: int) -> None:
        super().__init__(step, num_ps)
        self._ahead, self._most, self._begun = ahead, most, ahead.begin()
        self._ends: dict[int, list[tf.Operation]] = {}
        with on_worker(self._begun.device):
            self._kept = KeptPull(self._front.found, self._begun)
        self.steps(1)

    @functools.cached_property
    def _front(self) -> Front:
        """The part of a step that can be made in the call before."""
        ahead, inside = self._ahead, self.section.inside
        if self.section.worker_ends or not ahead.rows:
            return Front(inside, ahead.values)
        return Front.of(inside, ahead.values, ahead.rows, [*self.step.train, self.step.examples.op])

    def steps(self, count: int) -> list[UnrolledStep]:
        """Returns the steps of a call; not even the first one is the step itself."""
        self.place(count)
        return [self.step_of(placed) for placed in self.placed[:count]]

    def ends(self, count: int) -> list[tf.Operation]:
        """Returns the operation that keeps the front of the next call's first step."""
        return self._ends.get(count, []) if count else [*self._ends[1], self._begun]

    def add(self, count: int) -> None:
        """Adds the sections of a call, and its end."""
        super().add(count)
        if count and count not in self._ends:
            self._ends[count] = [self._end(count)]

    def next_section(self, number: int) -> Placed:
        """Adds a step that begins with what was kept, or that pulls before the step before it has ended."""
        if not number:
            return self._first()
        previous, gates = self.placed[-1], self._pull_gates(number)
        for ps in range(1, self._num_ps):
            # It could push to another ps before its turn on the first ps, where a checkpoint holds steps back between
            # two of them (`engine/checkpoint/push_barrier.py`).
            gates[push_gate(ps)] = Gate(ps_device(ps), previous.ends(ps) + previous.ends(0))
        return self.section.copy(f"step_{number}", number, previous, gates)

    def _pull_gates(self, number: int) -> dict[str, Gate]:
        """Returns the gates of the pull of a number: it follows the step before the previous one."""
        after = self.placed[number - 2] if number > 1 else NOTHING
        return {pull_gate(ps): Gate(ps_device(ps), after.ends(ps)) for ps in range(self._num_ps)}

    def _first(self) -> Placed:
        """Adds a copy that begins a call with what was kept of its front."""
        front, section = self._front, self.section
        gates = section.gates_after(NOTHING)
        gates = {name: Gate(gates[name].device, [self._begun]) for name in (READ_GATE, WORK_GATE) if name in gates}
        anything = next(iter(self._kept.values.values()))
        replaced = self._kept.values | {f"^{name}": anything for name in front.on_worker}
        placed = section.copy("step_kept", self._most, NOTHING, gates, replaced)
        *train, examples = placed.ops
        batch_ops = [self._begun] if front.reads_batch else placed.batch_ops
        return dataclasses.replace(placed, ops=[*train, self._begun, examples], batch_ops=batch_ops)

    def _end(self, count: int) -> tf.Operation:
        """Adds the end of a call of so many steps: the front of the next call's first step, which is kept."""
        gates = self._pull_gates(count)
        gates[READ_GATE] = Gate(self._begun.device, self.placed[count - 1].batch_ops)
        targets, number = [tensor.op for tensor in self._front.found], self._most + count
        copies = self._front.import_copy(f"pull_{count}", number, gates, targets=targets)
        newer = [op.outputs[tensor.value_index] for op, tensor in zip(copies, self._front.found, strict=True)]
        return self._kept.keep(newer)


def pulls_ahead(spec: GraphSpec) -> list[PullAhead]:
    """Returns the part: none, or one; none if the model assigns variables, which must not be outdated."""
    state = spec.variables.state()
    if spec.job.prefetch_pulls and state:
        log.warning(
            "%s has no effect: the model assigns %s itself, which the next step must see",
            described(spec.job, "prefetch_pulls"),
            ", ".join(state[:3]),
        )
    return [PullAhead(spec)] if spec.job.prefetch_pulls and not state else []
