"""Several steps in one `session.run`: the step's nodes once more for each of them, one behind the other.

    copies = repeated(ops.train, examples, num_ps=1, times=7)          # with the step itself, eight in a run
    session.run([*ops.train, *(op for copy in copies for op in copy.train)])

What a run costs whatever is in it (Python, TensorFlow's master, two RPCs for each ps) is shared by its steps.  A copy
begins on each ps where the one before it ended there, so that a step pulls what the one before it has pushed; that is
no message more.  Only where values are pulled ahead the first ps sends each other one a small one for every step.
Batches are taken in order.

Nodes are copied, the model is not built again: its Python runs once, however many steps there are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.graph.variables import ps_device

_NEXT, _LOCK = "IteratorGetNext", "MutexLock"
_PULL, _PUSH, _READ = "ps_train_gate/pull_{}", "ps_train_gate/push_{}", "ps_train_gate/read"
"""What the nodes of a copy call what they wait for: before they pull from a ps, before they change anything there, and
before they take a batch."""


@dataclasses.dataclass(frozen=True)
class Copy:
    """One more step.

    Attributes:
      train: what has to be done; the same as of the step that was copied.
      examples: float32 scalar, how many examples the step stands for.
    """

    train: list[tf.Operation]
    examples: tf.Tensor


def repeated(train: Sequence[tf.Operation], examples: tf.Tensor, num_ps: int, times: int, ahead: int = 0) -> list[Copy]:
    """So many more steps like the one that is given, each after the one before it.

    Args:
      ahead: how many steps before its turn a step pulls, so that its values come while another one is computed.
    """
    copies = [Copy(list(train), examples)]
    if times:
        pattern = _Pattern(copies[0], num_ps, ahead)
        nexts = pattern.nexts
        for number in range(1, times + 1):
            turn = copies[number - 1 - ahead] if number > ahead else None
            copy, nexts = pattern.copy(number, copies[-1], turn, nexts)
            copies.append(copy)
    return copies[1:]


class _Pattern:
    """The nodes of a step.

    Attributes:
      nexts: those that take a batch.
    """

    def __init__(self, step: Copy, num_ps: int, ahead: int) -> None:
        self._step, self._num_ps, self._ahead = step, num_ps, ahead
        needed = _needed([*step.train, step.examples.op])
        self._outside = {op.name: op for op in needed if _is_shared(op)}
        inside = [op for op in needed if op.name not in self._outside]
        self.nexts = [op for op in inside if op.type == _NEXT]
        self._nodes = v1.GraphDef(versions=step.examples.graph.graph_def_versions)
        for op in inside:
            self._nodes.node.append(self._node(op))
        self._taken = {_full_name(taken) for node in self._nodes.node for taken in node.input}

    def copy(
        self, number: int, before: Copy, turn: Copy | None, nexts: Sequence[tf.Operation]
    ) -> tuple[Copy, list[tf.Operation]]:
        """The step once more, and those of its nodes that take a batch.

        Args:
          before: the step before it.
          turn: the step after which it pulls; None: it need not wait.
          nexts: the nodes that take the batch before its own.
        """
        name = f"step_{number}"
        nodes = v1.GraphDef()
        nodes.CopyFrom(self._nodes)
        for node in nodes.node:
            _make_distinct(node, name, number)
        train, examples = self._step.train, self._step.examples
        wanted = [*(op.name for op in train), examples.name, *(op.name for op in self.nexts)]
        found = tf.import_graph_def(nodes, self._given(before, turn, nexts), wanted, name)
        return Copy(list(found[: len(train)]), found[len(train)]), list(found[len(train) + 1 :])

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
        return [_PULL.format(ps)] if takes_nothing and ps is not None else []

    def _given(self, before: Copy, turn: Copy | None, nexts: Sequence[tf.Operation]) -> dict[str, tf.Tensor]:
        """What stands for the names that the nodes take from outside."""
        given = {tensor.name: tensor for op in self._outside.values() for tensor in op.outputs}
        for ps in range(self._num_ps):
            # Who pulls before his turn would also push elsewhere before his turn has come on the first ps, where steps
            # are held up between two of them (`updates/hold.py`).
            first = _ends(before, 0) if self._ahead and ps else []
            with tf.device(ps_device(ps)):
                given["^" + _PULL.format(ps)] = _gate(_PULL.format(ps), _ends(turn, ps))
                given["^" + _PUSH.format(ps)] = _gate(_PUSH.format(ps), _ends(before, ps) + first)
        if nexts:
            with tf.device(nexts[0].device):
                given["^" + _READ] = _gate(_READ, nexts)
        return {name: tensor for name, tensor in given.items() if name in self._taken}


def _full_name(taken: str) -> str:
    """Of a node's input: nodes leave out the number of a first output."""
    return taken if taken.startswith("^") or ":" in taken else f"{taken}:0"


def _gate(name: str, after: Sequence[tf.Operation]) -> tf.Tensor:
    with tf.control_dependencies(after):
        return tf.constant(0, name=name)


def _ends(step: Copy | None, ps: int) -> list[tf.Operation]:
    """The end of a step, as far as a ps is concerned: where it ends on another ps only (with its turn on the first one,
    under `bounded`), that is waited for."""
    everything = step.train if step else []
    return [op for op in everything if _ps_of(op) == ps] or everything


def _needed(targets: Sequence[tf.Operation]) -> list[tf.Operation]:
    """Everything that runs when these do, in the order of the graph."""
    found: dict[str, tf.Operation] = {}
    left = list(targets)
    while left:
        op = left.pop()
        if op.name not in found:
            found[op.name] = op
            left += [tensor.op for tensor in op.inputs] + list(op.control_inputs)
    return [op for op in targets[0].graph.get_operations() if op.name in found]


def _is_shared(op: tf.Operation) -> bool:
    """Whether all steps take the same one: variables, queues, iterators, and what never changes."""
    if op.inputs or op.control_inputs:
        return False
    return op.type == "Const" or any(tensor.dtype == tf.resource for tensor in op.outputs)


def _ps_of(op: tf.Operation) -> int | None:
    device = tf.DeviceSpec.from_string(op.device)
    return device.task if device.job == "ps" else None


def _make_distinct(node: v1.NodeDef, name: str, number: int) -> None:
    """No two copies draw the same random numbers, and none runs in the frame of another's loop."""
    if "seed" in node.attr and "seed2" in node.attr and (node.attr["seed"].i or node.attr["seed2"].i):
        node.attr["seed2"].i += number << 32
    if "frame_name" in node.attr:
        node.attr["frame_name"].s = name.encode() + b"/" + node.attr["frame_name"].s
