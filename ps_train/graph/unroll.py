"""Several steps in one `session.run`: copies of the step's nodes, one after the other.

    copies = unroll(ops.train, examples, num_ps=1, count=7)            # with the step itself, eight in a call
    session.run([*ops.train, *(op for copy in copies for op in copy.train)])

The steps of a call share its fixed cost: Python, TensorFlow's master, two RPCs for each ps.  On each ps, a copy begins
when the previous copy has ended there.  A step therefore pulls the values that the previous step has updated.  This
needs no additional message, except when values are pulled ahead.  The first ps then sends a small message to each other
ps in every step.  Batches are read in order.

The nodes are copied, so the model's Python code runs once for any number of steps.  A copy draws different random
numbers, in functions too (`placement/copied_functions.py`).  If the model has side effects on the worker
(`effects.py`), the worker's part of a copy begins when that of the previous copy has ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.graph.effects import ancestors, has_side_effect, is_shared
from ps_train.placement.copied_functions import FunctionLibrary, make_seed_distinct
from ps_train.placement.variables import ps_device
from ps_train.private_tf import COLOCATION

_GET_NEXT, _LOCK = "IteratorGetNext", "MutexLock"
_PULL, _PUSH, _READ = "ps_train_gate/pull_{}", "ps_train_gate/push_{}", "ps_train_gate/read"
_WORK = "ps_train_gate/work"
"""Placeholder input names of the gates in the copied GraphDef.

A gate stands before pulling from a ps, before changing anything there, before reading a batch, or before any other work
on the worker.
"""


@dataclasses.dataclass(frozen=True)
class UnrolledStep:
    """One further step of a call.

    Attributes:
      train: the operations of the step, in the order of the copied step's operations.
      examples: float32 scalar, number of examples that the step stands for.
    """

    train: list[tf.Operation]
    examples: tf.Tensor


def unroll(
    train: Sequence[tf.Operation], examples: tf.Tensor, num_ps: int, count: int, ahead: int = 0
) -> list[UnrolledStep]:
    """Adds copies of a step to the graph, each after the previous one.

    Args:
      train: the operations of the step.
      examples: float32 scalar, number of examples that the step stands for.
      num_ps: number of ps.
      count: number of copies.
      ahead: number of steps that a step pulls ahead of its turn, so its values travel while another step is computed.
    """
    if not count:
        return []
    template = _StepTemplate(UnrolledStep(list(train), examples), num_ps, ahead)
    placed = [template.first()]
    for number in range(1, count + 1):
        pull_after = placed[number - 1 - ahead] if number > ahead else None
        placed.append(template.copy(number, placed[-1], pull_after))
    return [copy.step for copy in placed[1:]]


class _StepTemplate:
    """The nodes of a step, to be copied.

    Args:
      step: the step.
      num_ps: number of ps.
      ahead: see `unroll`.

    Attributes:
      batch_ops: the operations that read a batch.
    """

    def __init__(self, step: UnrolledStep, num_ps: int, ahead: int) -> None:
        self._step, self._num_ps, self._ahead = step, num_ps, ahead
        needed = ancestors([*step.train, step.examples.op])
        self._shared = {op.name: op for op in needed if is_shared(op)}
        inside = [op for op in needed if op.name not in self._shared]
        self.batch_ops = [op for op in inside if op.type == _GET_NEXT]
        self._functions = FunctionLibrary.of(inside)
        self._worker_ends = self._find_worker_ends(inside)
        self._nodes = v1.GraphDef(versions=step.examples.graph.graph_def_versions)
        for op in inside:
            self._nodes.node.append(self._node(op))
        self._inputs = {_full_name(name) for node in self._nodes.node for name in node.input}

    def first(self) -> _Placed:
        """Returns the step that is copied."""
        return _Placed(self._step, self.batch_ops, self._worker_ends)

    def copy(self, number: int, previous: _Placed, pull_after: _Placed | None) -> _Placed:
        """Adds a copy of the step to the graph.

        Args:
          number: number of the copy, from 1.
          previous: the step before the copy.
          pull_after: the step after which the copy pulls; None if its pull waits for no step.
        """
        name = f"step_{number}"
        nodes = v1.GraphDef()
        nodes.CopyFrom(self._nodes)
        for node in nodes.node:
            _make_distinct(node, name, number)
        nodes.library.CopyFrom(self._functions.copy_for(nodes.node, number))
        train, examples = self._step.train, self._step.examples
        originals = [*train, *self.batch_ops, *self._worker_ends]
        copies = tf.import_graph_def(
            nodes, self._input_map(previous, pull_after), [examples.name, *(op.name for op in originals)], name
        )
        ops = iter(copies[1:])
        step = UnrolledStep([next(ops) for _ in train], copies[0])
        return _Placed(step, [next(ops) for _ in self.batch_ops], list(ops))

    def _find_worker_ends(self, inside: Sequence[tf.Operation]) -> list[tf.Operation]:
        """Returns the last operations of the worker's part of a step: those that a ps uses or a call fetches.

        The list is empty if the worker's part has no side effect, because copies then need not wait for each other.
        """
        on_worker = [op for op in inside if _ps_of(op) is None and op.type != _GET_NEXT]
        if not any(has_side_effect(op, self._functions) for op in on_worker):
            return []
        used = {tensor.op.name for op in inside if _ps_of(op) is not None for tensor in op.inputs}
        used |= {control.name for op in inside if _ps_of(op) is not None for control in op.control_inputs}
        fetched = {op.name for op in [*self._step.train, self._step.examples.op]}
        return [op for op in inside if _is_on_worker(op) and op.name in used | fetched]

    def _node(self, op: tf.Operation) -> v1.NodeDef:
        node = op.node_def
        inputs = [name for name in node.input if not (name.startswith("^") and name[1:] in self._shared)]
        is_source = all(name.partition(":")[0] in self._shared for name in inputs)
        inputs += [f"^{gate}" for gate in self._gates_of(op, is_source)]
        del node.input[:]
        node.input.extend(inputs)
        node.attr.pop(COLOCATION, None)  # names nodes that may not be copied; the device gives the place
        return node

    def _gates_of(self, op: tf.Operation, is_source: bool) -> list[str]:
        """Returns the gates that a node waits for.

        Args:
          op: the operation of the node.
          is_source: True if the node has no input from its own step, and could therefore run immediately.
        """
        ps = _ps_of(op)
        if op.type == _GET_NEXT:
            return [_READ]
        if op.type == _LOCK:
            return [_PUSH.format(ps)]
        if ps is not None:
            return [_PULL.format(ps)] if is_source else []
        return [_WORK] if self._worker_ends and (is_source or self._has_outer_input(op)) else []

    @staticmethod
    def _has_outer_input(op: tf.Operation) -> bool:
        """Returns True if an input does not come from the worker's computation: a batch, or a tensor from a ps."""
        return any(tensor.op.type == _GET_NEXT or _ps_of(tensor.op) is not None for tensor in op.inputs)

    def _input_map(self, previous: _Placed, pull_after: _Placed | None) -> dict[str, tf.Tensor]:
        """Returns the tensors for the input names of the nodes: shared operations and gates."""
        tensors = {tensor.name: tensor for op in self._shared.values() for tensor in op.outputs}
        for ps in range(self._num_ps):
            # A step that pulls ahead could push to another ps before its turn on the first ps, where a checkpoint holds
            # steps back between two of them (`checkpoint/push_barrier.py`).
            first = _ends(previous, 0) if self._ahead and ps else []
            with tf.device(ps_device(ps)):
                tensors["^" + _PULL.format(ps)] = _add_gate(_PULL.format(ps), _ends(pull_after, ps))
                tensors["^" + _PUSH.format(ps)] = _add_gate(_PUSH.format(ps), _ends(previous, ps) + first)
        for name, after in ((_READ, previous.batch_ops), (_WORK, previous.worker_ends)):
            if after:
                with tf.device(after[0].device):
                    tensors["^" + name] = _add_gate(name, after)
        return {name: tensor for name, tensor in tensors.items() if name in self._inputs}


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


def _full_name(name: str) -> str:
    """Returns the full name of a node's input; a NodeDef omits the number of a first output."""
    return name if name.startswith("^") or ":" in name else f"{name}:0"


def _add_gate(name: str, after: Sequence[tf.Operation]) -> tf.Tensor:
    with tf.control_dependencies(after):
        return tf.constant(0, name=name)


def _ends(placed: _Placed | None, ps: int) -> list[tf.Operation]:
    """Returns the last operations of a step on a ps; all last operations if the step ends on other ps only.

    The latter is the case under `bounded`, where a step ends at the token gate on the first ps.
    """
    ends = [op for op in placed.step.train if _ps_of(op) is not None] if placed else []
    return [op for op in ends if _ps_of(op) == ps] or ends


def _ps_of(op: tf.Operation) -> int | None:
    device = _device_of(op)
    return device.task if device.job == "ps" else None


def _is_on_worker(op: tf.Operation) -> bool:
    return _device_of(op).job not in (None, "ps")


def _device_of(op: tf.Operation) -> tf.DeviceSpec:
    """Returns the device of an operation; one without a device runs with its resource, as an optimizer's update."""
    for tensor in op.inputs:
        if tensor.dtype == tf.resource and not op.device:
            return _device_of(tensor.op)
    return tf.DeviceSpec.from_string(op.device)


def _make_distinct(node: v1.NodeDef, name: str, number: int) -> None:
    """Gives a copied node its own random seed and its own loop frame."""
    make_seed_distinct(node, number)
    if "frame_name" in node.attr:
        node.attr["frame_name"].s = name.encode() + b"/" + node.attr["frame_name"].s
