"""Several steps in one `session.run`: copies of the step's nodes, one after the other.

    calls = UnrolledCalls(ops.train, examples, num_ps=1, most=8)
    session.run([step.train for step in calls.steps(3)])                # three steps in one call

The steps of a call share its fixed cost: Python, TensorFlow's master, two RPCs for each ps.  On each ps, a copy begins
when the previous copy has ended there.  A step therefore pulls the values that the previous step has updated.  This
needs no additional message, except when values are pulled ahead.  The first ps then sends a small message to each other
ps in every step.  Batches are read in order.

With values that are pulled ahead, the end of a call also makes the front of the next call's first step (`front.py`),
and the worker keeps what it has found.

The nodes are copied, so the model's Python code runs once for any number of steps.  A copy draws different random
numbers, in functions too (`engine/variables/copied_functions.py`).  If the model has side effects on the worker
(`effects.py`), the worker's part of a copy begins when that of the previous copy has ended.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import extensible
from ps_train.engine.step.copied_nodes import GET_NEXT, LOCK, READ_GATE, Gate, Template, device_of_op, ps_of, pull_gate
from ps_train.engine.step.effects import has_side_effect
from ps_train.engine.step.pulled_batch import Front, KeptPull
from ps_train.engine.variables.variables import on_worker, ps_device

_PUSH, _WORK = "ps_train_gate/push_{}", "ps_train_gate/work"
"""Placeholder input names of the gates in the copied GraphDef: before changing a ps, and before work on the worker."""


@dataclasses.dataclass(frozen=True)
class UnrolledStep:
    """One further step of a call.

    Attributes:
      train: the operations of the step, in the order of the copied step's operations.
      examples: float32 scalar, number of examples that the step stands for.
    """

    train: list[tf.Operation]
    examples: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Ahead:
    """Operations and tensors that are needed to pull each step's values one step ahead of its turn.

    Attributes:
      values: the tensors that every step reads on the ps.
      rows: the tensors with the rows of its batch; empty if the call before may not read that batch.
      begun: operation on the worker that runs when every ps has begun its part of a call.
    """

    values: Sequence[tf.Tensor]
    rows: Sequence[tf.Tensor]
    begun: tf.Operation


class UnrolledCalls:
    """The steps of calls, as copies of one step, each after the previous one.

    A copy is made when a call that needs it is first asked for, also in a graph that is finalized and whose sessions
    run: TensorFlow sends the new nodes with the next call.  A step of which no such call is made is never copied.

    Args:
      train: the operations of the step.
      examples: float32 scalar, number of examples that the step stands for.
      num_ps: number of ps.
      most: maximum number of steps of a call.
      ahead: if given, each step's values are pulled while the step before it is computed, also from call to call.
    """

    def __init__(
        self, train: Sequence[tf.Operation], examples: tf.Tensor, num_ps: int, most: int, ahead: Ahead | None = None
    ) -> None:
        self._step, self._num_ps, self._most, self._ahead = UnrolledStep(list(train), examples), num_ps, most, ahead
        self._placed: list[_Placed] = []
        self._ends: dict[int, list[tf.Operation]] = {}
        if ahead is not None:
            self._front = self._template.front(ahead)
            with on_worker(ahead.begun.device):
                self._kept = KeptPull(self._front.found, ahead.begun)
            self.steps(1)

    @functools.cached_property
    def _template(self) -> _StepTemplate:
        return _StepTemplate(self._step, self._num_ps)

    @property
    def nodes(self) -> int:
        """The number of nodes that each further step of a call copies."""
        return len(self._template.inside)

    def steps(self, count: int) -> list[UnrolledStep]:
        """Returns the steps of a call, and makes those that are missing; call it in one thread at a time."""
        if self._ahead is None and count <= 1:
            return [self._step][:count]
        with extensible(self._step.examples.graph), tf.device(None), tf.control_dependencies(None), v1.name_scope(None):
            while len(self._placed) < count:
                self._placed.append(self._next())
            if self._ahead is not None and count and count not in self._ends:
                self._ends[count] = [self._end(count, self._ahead)]
        return [placed.step for placed in self._placed[:count]]

    def ends(self, count: int) -> list[tf.Operation]:
        """Returns the operations of a call of so many steps that belong to none of them.

        Those for 0 steps are a call of their own, which a session makes before all others.
        """
        if count or self._ahead is None:
            return self._ends.get(count, [])
        return [*self._ends[1], self._ahead.begun]

    def _next(self) -> _Placed:
        """Adds the next step of a call to the graph."""
        number = len(self._placed)
        if self._ahead is None:
            return self._template.copy(number, self._placed[-1], self._placed[-1]) if number else self._template.first()
        if not number:
            return self._template.first_with(self._front, self._kept, self._ahead.begun, self._most)
        pull_after = self._placed[-2] if number > 1 else None
        return self._template.copy(number, self._placed[-1], pull_after, pulls_ahead=True)

    def _end(self, count: int, ahead: Ahead) -> tf.Operation:
        """Adds the end of a call of so many steps: the front of the next call's first step, which is kept."""
        pull_after = self._placed[count - 2] if count > 1 else None
        gates = {pull_gate(ps): Gate(ps_device(ps), _ends(pull_after, ps)) for ps in range(self._num_ps)}
        gates[READ_GATE] = Gate(ahead.begun.device, self._placed[count - 1].batch_ops)
        targets, number = [tensor.op for tensor in self._front.found], self._most + count
        copies = self._front.import_copy(f"pull_{count}", number, gates, targets=targets)
        newer = [op.outputs[tensor.value_index] for op, tensor in zip(copies, self._front.found, strict=True)]
        return self._kept.keep(newer)


class _StepTemplate(Template):
    """The nodes of a whole step.

    Args:
      num_ps: number of ps.
    """

    def __init__(self, step: UnrolledStep, num_ps: int) -> None:
        super().__init__([*step.train, step.examples.op])
        self._step, self._num_ps = step, num_ps
        self._batch_ops = [op for op in self.inside if op.type == GET_NEXT]

    def first(self) -> _Placed:
        """Returns the step that is copied."""
        return _Placed(self._step, self._batch_ops, self._worker_ends)

    def front(self, ahead: Ahead) -> Front:
        """Returns the part of the step that can be made in the call before."""
        if self._worker_ends or not ahead.rows:
            return Front(self.inside, ahead.values)
        return Front.of(self.inside, ahead.values, ahead.rows, [*self._step.train, self._step.examples.op])

    def first_with(self, front: Front, kept: KeptPull, begun: tf.Operation, number: int) -> _Placed:
        """Adds a copy that begins a call with what was kept of its front.

        Args:
          front: the part that the call before has made.
          kept: what it has found.
          begun: operation on the worker that runs when every ps has begun its part of the call.
          number: number of the copy.
        """
        nothing = _Placed(UnrolledStep([], self._step.examples), [], [])
        gates = self._gates(nothing, None, False)
        gates |= {name: Gate(gate.device, [begun]) for name, gate in gates.items() if name in (READ_GATE, _WORK)}
        anything = next(iter(kept.values.values()))
        replaced = kept.values | {f"^{name}": anything for name in front.on_worker}
        placed = self._placed(self.import_copy("step_kept", number, gates, replaced, self._wanted()))
        batch_ops = [begun] if front.reads_batch else placed.batch_ops
        step = UnrolledStep([*placed.step.train, begun], placed.step.examples)
        return dataclasses.replace(placed, step=step, batch_ops=batch_ops)

    def copy(self, number: int, previous: _Placed, pull_after: _Placed | None, pulls_ahead: bool = False) -> _Placed:
        """Adds a copy of the step to the graph.

        Args:
          number: number of the copy, from 1.
          previous: the step before the copy.
          pull_after: the step after which the copy pulls; None if its pull waits for no step.
          pulls_ahead: True if the copy may pull before `previous` has ended.
        """
        gates = self._gates(previous, pull_after, pulls_ahead)
        return self._placed(self.import_copy(f"step_{number}", number, gates, targets=self._wanted()))

    def _wanted(self) -> list[tf.Operation]:
        return [self._step.examples.op, *self._step.train, *self._batch_ops, *self._worker_ends]

    def _placed(self, copies: Sequence[tf.Operation]) -> _Placed:
        ops = iter(copies)
        examples = next(ops).outputs[self._step.examples.value_index]
        step = UnrolledStep([next(ops) for _ in self._step.train], examples)
        return _Placed(step, [next(ops) for _ in self._batch_ops], list(ops))

    @functools.cached_property
    def _worker_ends(self) -> list[tf.Operation]:
        """The last operations of the worker's part of a step: those that a ps uses or a call fetches.

        The list is empty if the worker's part has no side effect, because copies then need not wait for each other.
        """
        inside = self.inside
        on_worker = [op for op in inside if ps_of(op) is None and op.type != GET_NEXT]
        if not any(has_side_effect(op, self.functions) for op in on_worker):
            return []
        used = {tensor.op.name for op in inside if ps_of(op) is not None for tensor in op.inputs}
        used |= {control.name for op in inside if ps_of(op) is not None for control in op.control_inputs}
        fetched = {op.name for op in [*self._step.train, self._step.examples.op]}
        return [op for op in inside if _is_on_worker(op) and op.name in used | fetched]

    def gates_of(self, op: tf.Operation, is_source: bool) -> list[str]:
        """Returns the gates that a node waits for; see the base class."""
        if op.type == LOCK:
            return [_PUSH.format(ps_of(op))]
        if ps_of(op) is not None or op.type == GET_NEXT:
            return super().gates_of(op, is_source)
        return [_WORK] if self._worker_ends and (is_source or self._has_outer_input(op)) else []

    @staticmethod
    def _has_outer_input(op: tf.Operation) -> bool:
        """Returns True if an input does not come from the worker's computation: a batch, or a tensor from a ps."""
        return any(tensor.op.type == GET_NEXT or ps_of(tensor.op) is not None for tensor in op.inputs)

    def _gates(self, previous: _Placed, pull_after: _Placed | None, pulls_ahead: bool) -> dict[str, Gate]:
        """Returns the gates of a copy."""
        gates = {}
        for ps in range(self._num_ps):
            # A step that pulls ahead could push to another ps before its turn on the first ps, where a checkpoint holds
            # steps back between two of them (`engine/checkpoint/push_barrier.py`).
            first = _ends(previous, 0) if pulls_ahead and ps else []
            gates[pull_gate(ps)] = Gate(ps_device(ps), _ends(pull_after, ps))
            gates[_PUSH.format(ps)] = Gate(ps_device(ps), _ends(previous, ps) + first)
        for name, ops, after in (
            (READ_GATE, self._batch_ops, previous.batch_ops),
            (_WORK, self._worker_ends, previous.worker_ends),
        ):
            if ops:
                gates[name] = Gate(ops[0].device, after)
        return gates


@dataclasses.dataclass(frozen=True)
class _Placed:
    """A step in the graph.

    Attributes:
      batch_ops: the operations that read its batches.
      worker_ends: the last operations of the worker's part.
    """

    step: UnrolledStep
    batch_ops: Sequence[tf.Operation]
    worker_ends: Sequence[tf.Operation]


def _ends(placed: _Placed | None, ps: int) -> list[tf.Operation]:
    """Returns the last operations of a step on a ps; all last operations if the step ends on other ps only.

    The latter is the case under `bounded`, where a step ends at the token gate on the first ps.
    """
    ends = [op for op in placed.step.train if ps_of(op) is not None] if placed else []
    return [op for op in ends if ps_of(op) == ps] or ends


def _is_on_worker(op: tf.Operation) -> bool:
    return device_of_op(op).job is not None and ps_of(op) is None
