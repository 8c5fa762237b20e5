"""Several steps in one `session.run`: copies of the step's nodes, one after the other.

    calls = UnrolledCalls(UnrolledStep(ops.train, examples), num_ps=1)
    session.run([step.train for step in calls.steps(3)])                # three steps in one call

The steps of a call share its fixed cost: Python, TensorFlow's master, two RPCs for each ps.  On each ps, a copy begins
when the previous copy has ended there.  A step therefore pulls the values that the previous step has updated.  This
needs no additional message, except when values are pulled ahead (`parts/pull_ahead.py`).  The first ps then sends a
small message to each other ps in every step.  Batches are read in order.

What is copied at once is a section: here the whole step.  Sections follow each other in any order, each after the one
before it: a pull, some steps on the worker alone, and a push are as good as a whole step.

The nodes are copied, so the model's Python code runs once for any number of steps.  A copy draws different random
numbers, in functions too (`engine/variables/copied_functions.py`).  If the model has side effects on the worker
(`effects.py`), the worker's part of a copy begins when that of the previous copy has ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import extensible
from ps_train.engine.step.copied_nodes import (
    GET_NEXT,
    LOCK,
    READ_GATE,
    Gate,
    Template,
    device_of_op,
    ps_of,
    pull_gate,
)
from ps_train.engine.step.effects import has_side_effect
from ps_train.engine.variables.variables import ps_device

WORK_GATE = "ps_train_gate/work"
"""Placeholder input name in the copied GraphDef: the gate before work on the worker."""


def push_gate(ps: int) -> str:
    """Returns the name of the gate before anything is changed on a ps."""
    return f"ps_train_gate/push_{ps}"


@dataclasses.dataclass(frozen=True)
class UnrolledStep:
    """A step of a call.

    Attributes:
      train: the operations of the step, in the order of the copied step's operations.
      examples: float32 scalar, number of examples that the step stands for.
    """

    train: list[tf.Operation]
    examples: tf.Tensor


@dataclasses.dataclass(frozen=True)
class Placed:
    """A section in the graph, and what the next one waits for; that of the section before where this one has none.

    Attributes:
      ops: the section's targets.
      on_ps: the last operations on the ps.
      batch_ops: the operations that read its batches.
      worker_ends: the last operations of the worker's part.
    """

    ops: Sequence[tf.Operation] = ()
    on_ps: Sequence[tf.Operation] = ()
    batch_ops: Sequence[tf.Operation] = ()
    worker_ends: Sequence[tf.Operation] = ()

    def ends(self, ps: int) -> list[tf.Operation]:
        """Returns the last operations on a ps; all last operations if the section ends on other ps only.

        The latter is the case under `bounded`, where a step ends at the token gate on the first ps.
        """
        return [op for op in self.on_ps if ps_of(op) == ps] or [*self.on_ps]


NOTHING = Placed()


@contextlib.contextmanager
def extending(graph: tf.Graph) -> Iterator[None]:
    """Lets sections be added to a graph, which may be finalized."""
    with extensible(graph), tf.device(None), tf.control_dependencies(None), v1.name_scope(None):
        yield


class UnrolledCalls:
    """The steps of calls, as copies of one step, each after the previous one.

    A copy is made when a call that needs it is first asked for, also in a graph that is finalized and whose sessions
    run: TensorFlow sends the new nodes with the next call.  A step of which no such call is made is never copied.

    Args:
      step: the step that is copied.
      num_ps: number of ps.

    Attributes:
      placed: the sections that are in the graph, in the order of a call.
    """

    def __init__(self, step: UnrolledStep, num_ps: int) -> None:
        self.step, self._num_ps = step, num_ps
        self.placed: list[Placed] = []

    @functools.cached_property
    def section(self) -> Section:
        """The whole step."""
        return Section([*self.step.train, self.step.examples.op], self._num_ps)

    @property
    def nodes(self) -> int:
        """The number of nodes that TensorFlow prepares for each further step of a call, with those in functions."""
        return self.section.nodes

    def steps(self, count: int) -> list[UnrolledStep]:
        """Returns the steps of a call, and makes those that are missing; call it in one thread at a time."""
        if count <= 1:
            return [self.step][:count]
        self.place(count)
        return [self.step_of(placed) for placed in self.placed[:count]]

    def ends(self, count: int) -> list[tf.Operation]:
        """Returns the operations of a call of so many steps that belong to none of them.

        Those for 0 steps are a call of their own, which a session makes before all others.
        """
        return []

    def place(self, count: int) -> None:
        """Adds the sections of a call of so many steps that are missing in the graph."""
        with extending(self.step.examples.graph):
            self.add(count)

    def add(self, count: int) -> None:
        """Adds them; called in the graph."""
        while len(self.placed) < count:
            self.placed.append(self.next_section(len(self.placed)))

    def next_section(self, number: int) -> Placed:
        """Adds the section of a number, from 0, to the graph."""
        return self.section.copy(f"step_{number}", number, self.placed[-1]) if number else self.section.itself()

    def step_of(self, placed: Placed) -> UnrolledStep:
        """Returns the step that a section makes."""
        *train, examples = placed.ops
        return UnrolledStep(train, examples.outputs[self.step.examples.value_index])


class Section(Template):
    """Nodes of a call that are copied together.

    Args:
      targets: the operations that are wanted.
      num_ps: number of ps.

    Attributes:
      batch_ops: the operations that read batches.
    """

    def __init__(self, targets: Sequence[tf.Operation], num_ps: int) -> None:
        super().__init__(targets)
        self._num_ps = num_ps
        self.batch_ops = [op for op in self.inside if op.type == GET_NEXT]

    def freeze(self) -> None:
        """Takes the nodes as they are now; see the base class."""
        super().freeze()
        self.worker_ends  # noqa: B018 (found once)

    @property
    def nodes(self) -> int:
        """The number of nodes of a copy, and of the functions that they call: conditions, loops, `tf.function`s."""
        return sum(1 + sum(1 for _ in self.functions.nodes_of(op.node_def)) for op in self.inside)

    def itself(self) -> Placed:
        """Returns the nodes that are copied, as the first section of a call."""
        return self._placed(self._wanted(), NOTHING)

    def copy(
        self,
        name: str,
        number: int,
        previous: Placed,
        gates: Mapping[str, Gate] = MappingProxyType({}),
        replaced: Mapping[str, tf.Tensor] = MappingProxyType({}),
    ) -> Placed:
        """Adds a copy to the graph.

        Args:
          name: name scope of the copy.
          number: number of the copy, from 1; its random numbers depend on it.
          previous: the section before the copy.
          gates: gates in the place of those after the previous section.
          replaced: see `Template.import_copy`.
        """
        every = {**self.gates_after(previous), **gates}
        return self._placed(self.import_copy(name, number, every, replaced, self._wanted()), previous)

    def _wanted(self) -> list[tf.Operation]:
        return [*self.targets, *self.batch_ops, *self.worker_ends]

    def _placed(self, ops: Sequence[tf.Operation], previous: Placed) -> Placed:
        left = iter(ops)
        found, batch_ops = [next(left) for _ in self.targets], [next(left) for _ in self.batch_ops]
        on_ps = [op for op in found if ps_of(op) is not None]
        return Placed(found, on_ps or previous.on_ps, batch_ops or previous.batch_ops, [*left] or previous.worker_ends)

    @functools.cached_property
    def worker_ends(self) -> list[tf.Operation]:
        """The last operations of the worker's part: those that a ps uses or a call fetches.

        The list is empty if the worker's part has no side effect, because copies then need not wait for each other.
        """
        inside = self.inside
        on_worker = [op for op in inside if ps_of(op) is None and op.type != GET_NEXT]
        if not any(has_side_effect(op, self.functions) for op in on_worker):
            return []
        used = {tensor.op.name for op in inside if ps_of(op) is not None for tensor in op.inputs}
        used |= {control.name for op in inside if ps_of(op) is not None for control in op.control_inputs}
        fetched = {op.name for op in self.targets}
        return [op for op in inside if _is_on_worker(op) and op.name in used | fetched]

    def gates_of(self, op: tf.Operation, is_source: bool) -> list[str]:
        """Returns the gates that a node waits for; see the base class."""
        ps = ps_of(op)
        if op.type == LOCK and ps is not None:
            return [push_gate(ps)]
        if ps is not None or op.type == GET_NEXT:
            return super().gates_of(op, is_source)
        return [WORK_GATE] if self.worker_ends and (is_source or self._has_outer_input(op)) else []

    @staticmethod
    def _has_outer_input(op: tf.Operation) -> bool:
        """Returns True if an input does not come from the worker's computation: a batch, or a tensor from a ps."""
        return any(tensor.op.type == GET_NEXT or ps_of(tensor.op) is not None for tensor in op.inputs)

    def gates_after(self, previous: Placed) -> dict[str, Gate]:
        """Returns the gates of a copy that begins when the section before it has ended, on each ps for itself."""
        gates: dict[str, Gate] = {}
        for ps in range(self._num_ps):
            gates |= {gate: Gate(ps_device(ps), previous.ends(ps)) for gate in (pull_gate(ps), push_gate(ps))}
        for name, ops, after in (
            (READ_GATE, self.batch_ops, previous.batch_ops),
            (WORK_GATE, self.worker_ends, previous.worker_ends),
        ):
            if ops:
                gates[name] = Gate(ops[0].device, after)
        return gates


def _is_on_worker(op: tf.Operation) -> bool:
    return device_of_op(op).job is not None and ps_of(op) is None
