"""Several steps in one `session.run`: the step's nodes once more for each of them, one behind the other.

    copies = repeated(ops.train, examples, num_ps=1, times=7)          # with the step itself, eight in a run
    session.run([*ops.train, *(op for copy in copies for op in copy.train)])

What a run costs whatever is in it (Python, TensorFlow's master, two RPCs for each ps) is shared by its steps.  A copy
begins on each ps where the one before it ended there, so that a step pulls what the one before it has pushed; that is
no message more.  Only where values are pulled ahead the first ps sends each other one a small one for every step.
Batches are taken in order.

Nodes are copied, the model is not built again: its Python runs once, however many steps there are.  A copy draws other
random numbers, in functions too (`copied_functions.py`).  Where the model does anything on the worker that may be seen
later (`effects.py`), the worker's part of a copy begins when that of the copy before it has ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.graph.effects import has_side_effect
from ps_train.placement.copied_functions import FunctionLibrary, make_seed_distinct
from ps_train.placement.variables import ps_device
from ps_train.transport.dense import BEGUN

_NEXT, _LOCK = "IteratorGetNext", "MutexLock"
_PULL, _PUSH, _READ = "ps_train_gate/pull_{}", "ps_train_gate/push_{}", "ps_train_gate/read"
_WORK = "ps_train_gate/work"
"""Names that the nodes of a copy give to their gates: before they pull from a ps, before they change anything there,
before they take a batch, and before they do anything else on the worker."""


@dataclasses.dataclass(frozen=True)
class UnrolledStep:
    """One more step.

    Attributes:
      train: what has to be done; the same as of the step that was copied.
      examples: float32 scalar, how many examples the step stands for.
    """

    train: list[tf.Operation]
    examples: tf.Tensor


def unroll(
    train: Sequence[tf.Operation], examples: tf.Tensor, num_ps: int, times: int, ahead: int = 0
) -> list[UnrolledStep]:
    """So many more steps like the one that is given, each after the one before it.

    Args:
      ahead: how many steps before its turn a step pulls, so that its values come while another one is computed.
    """
    if not times:
        return []
    pattern = _StepTemplate(UnrolledStep(list(train), examples), num_ps, ahead)
    placed = [pattern.first()]
    for number in range(1, times + 1):
        turn = placed[number - 1 - ahead] if number > ahead else None
        placed.append(pattern.copy(number, placed[-1], turn))
    return [copy.step for copy in placed[1:]]


class _StepTemplate:
    """The nodes of a step.

    Attributes:
      nexts: those that take a batch.
    """

    def __init__(self, step: UnrolledStep, num_ps: int, ahead: int) -> None:
        self._step, self._num_ps, self._ahead = step, num_ps, ahead
        needed = _needed([*step.train, step.examples.op])
        self._outside = {op.name: op for op in needed if _is_shared(op)}
        inside = [op for op in needed if op.name not in self._outside]
        self.batch_ops = [op for op in inside if op.type == _NEXT]
        self._functions = FunctionLibrary.of(inside)
        self._sent = self._sent_of(inside)
        self._nodes = v1.GraphDef(versions=step.examples.graph.graph_def_versions)
        for op in inside:
            self._nodes.node.append(self._node(op))
        self._taken = {_full_name(taken) for node in self._nodes.node for taken in node.input}

    def first(self) -> _Placed:
        """The step that is copied."""
        return _Placed(self._step, self.batch_ops, self._sent)

    def copy(self, number: int, before: _Placed, turn: _Placed | None) -> _Placed:
        """Adds the step once more.

        Args:
          before: the step before it.
          turn: the step after which it pulls; None: it need not wait.
        """
        name = f"step_{number}"
        nodes = v1.GraphDef()
        nodes.CopyFrom(self._nodes)
        for node in nodes.node:
            _make_distinct(node, name, number)
        nodes.library.CopyFrom(self._functions.copy_for(nodes.node, number))
        train, examples = self._step.train, self._step.examples
        wanted = [*train, *self.batch_ops, *self._sent]
        found = tf.import_graph_def(
            nodes, self._given(before, turn), [examples.name, *(op.name for op in wanted)], name
        )
        ops = iter(found[1:])
        step = UnrolledStep([next(ops) for _ in train], found[0])
        return _Placed(step, [next(ops) for _ in self.batch_ops], list(ops))

    def _sent_of(self, inside: Sequence[tf.Operation]) -> list[tf.Operation]:
        """The ends of the worker's part of a step, all of it being for what is sent to a ps or asked for; none where it
        has no effect, so that copies need not wait for each other."""
        if not any(has_side_effect(op, self._functions) for op in inside if _ps_of(op) is None and op.type != _NEXT):
            return []
        for_others = {tensor.op.name for op in inside if _ps_of(op) is not None for tensor in op.inputs}
        for_others |= {before.name for op in inside if _ps_of(op) is not None for before in op.control_inputs}
        asked = {op.name for op in [*self._step.train, self._step.examples.op]}
        return [op for op in inside if _is_on_worker(op) and op.name in for_others | asked]

    def _node(self, op: tf.Operation) -> v1.NodeDef:
        node = op.node_def
        kept = [name for name in node.input if not (name.startswith("^") and name[1:] in self._outside)]
        takes_nothing = all(name.partition(":")[0] in self._outside for name in kept)
        kept += [f"^{gate}" for gate in self._gates_of(op, takes_nothing)]
        del node.input[:]
        node.input.extend(kept)
        node.attr.pop("_class", None)  # the device says where it is; what it names may have been left out
        return node

    def _gates_of(self, op: tf.Operation, takes_nothing: bool) -> list[str]:
        """What a node has to wait for.  `takes_nothing`: of its own step, which is why it might run at once."""
        ps = _ps_of(op)
        if op.type == _NEXT:
            return [_READ]
        if op.type == _LOCK:
            return [_PUSH.format(ps)]
        if ps is not None:
            return [_PULL.format(ps)] if takes_nothing else []
        return [_WORK] if self._sent and (takes_nothing or self._enters(op)) else []

    @staticmethod
    def _enters(op: tf.Operation) -> bool:
        """Whether it takes what was not made on the worker: a batch, or what a ps has sent."""
        return any(tensor.op.type == _NEXT or _ps_of(tensor.op) is not None for tensor in op.inputs)

    def _given(self, before: _Placed, turn: _Placed | None) -> dict[str, tf.Tensor]:
        """What stands for the names that the nodes take from outside."""
        given = {tensor.name: tensor for op in self._outside.values() for tensor in op.outputs}
        for ps in range(self._num_ps):
            # Who pulls before his turn would also push elsewhere before his turn has come on the first ps, where steps
            # are held up between two of them (`checkpoint/push_barrier.py`).
            first = _ends(before, 0) if self._ahead and ps else []
            with tf.device(ps_device(ps)):
                given["^" + _PULL.format(ps)] = _add_gate(_PULL.format(ps), _ends(turn, ps))
                given["^" + _PUSH.format(ps)] = _add_gate(_PUSH.format(ps), _ends(before, ps) + first)
        for name, after in ((_READ, before.nexts), (_WORK, before.sent)):
            if after:
                with tf.device(after[0].device):
                    given["^" + name] = _add_gate(name, after)
        return {name: tensor for name, tensor in given.items() if name in self._taken}


@dataclasses.dataclass(frozen=True)
class _Placed:
    """A step in the graph: `nexts` take its batches, `sent` are the ends of the worker's part of it."""

    step: UnrolledStep
    nexts: Sequence[tf.Operation]
    sent: Sequence[tf.Operation]


def _full_name(taken: str) -> str:
    """Of a node's input: nodes leave out the number of a first output."""
    return taken if taken.startswith("^") or ":" in taken else f"{taken}:0"


def _add_gate(name: str, after: Sequence[tf.Operation]) -> tf.Tensor:
    with tf.control_dependencies(after):
        return tf.constant(0, name=name)


def _ends(placed: _Placed | None, ps: int) -> list[tf.Operation]:
    """The end of a step, as far as a ps is concerned: where it ends on another ps only (with its turn on the first one,
    under `bounded`), that is waited for."""
    everything = placed.step.train if placed else []
    return [op for op in everything if _ps_of(op) == ps] or everything


def _needed(targets: Sequence[tf.Operation]) -> list[tf.Operation]:
    """Everything that runs when these do, in the order of the graph."""
    found: dict[str, tf.Operation] = {}
    left = list(targets)
    while left:
        op = left.pop()
        if op.name not in found:
            found[op.name] = op
            if not _is_shared(op):
                left += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return [op for op in targets[0].graph.get_operations() if op.name in found]


def _is_shared(op: tf.Operation) -> bool:
    """Whether all steps take the same one: variables, queues, iterators, what never changes, and what a call begins
    with."""
    if op.name.rpartition("/")[2].startswith(BEGUN):
        return True
    if op.inputs or op.control_inputs:
        return False
    return op.type == "Const" or any(tensor.dtype == tf.resource for tensor in op.outputs)


def _ps_of(op: tf.Operation) -> int | None:
    device = _device_of(op)
    return device.task if device.job == "ps" else None


def _is_on_worker(op: tf.Operation) -> bool:
    return _device_of(op).job not in (None, "ps")


def _device_of(op: tf.Operation) -> tf.DeviceSpec:
    """Where it runs: an operation on a resource, as an optimizer's on a variable, runs where the resource is."""
    for tensor in op.inputs:
        if tensor.dtype == tf.resource and not op.device:
            return _device_of(tensor.op)
    return tf.DeviceSpec.from_string(op.device)


def _make_distinct(node: v1.NodeDef, name: str, number: int) -> None:
    """No two copies draw the same random numbers, and none runs in the frame of another's loop."""
    make_seed_distinct(node, number)
    if "frame_name" in node.attr:
        node.attr["frame_name"].s = name.encode() + b"/" + node.attr["frame_name"].s
