"""Copies of nodes of a graph that wait for gates.

    template = Template(targets)
    copies = template.import_copy("step_1", 1, {pull_gate(0): Gate(ps_device(0), ends)})

A gate is a node that the copied nodes wait for.  By default they are the reads on a ps and those of a batch; see
`Template.gates_of`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import tensorflow as tf
import tensorflow.compat.v1 as v1

from ps_train.base.private_tf import COLOCATION
from ps_train.engine.step.effects import ancestors, is_shared
from ps_train.engine.variables.copied_functions import FunctionLibrary, has_seed, make_seed_distinct
from ps_train.engine.variables.variables import INPUT_STATE, is_ps_device, uses_input_resource

LOCK, GET_NEXT = "MutexLock", "IteratorGetNext"
READ_GATE = "ps_train_gate/read"
"""Placeholder input name in the copied GraphDef: the gate before a batch is read."""


def pull_gate(ps: int) -> str:
    """Returns the name of the gate before anything is read on a ps: a placeholder input in the copied GraphDef."""
    return f"ps_train_gate/pull_{ps}"


class Gate(NamedTuple):
    """A node on a device, computed after some operations; other nodes wait for it."""

    device: str
    after: Sequence[tf.Operation]


class Template:
    """Some nodes of a step, to be copied.

    Args:
      targets: the operations that are wanted; their ancestors are copied with them.

    Attributes:
      targets: these operations.
      graph: their graph.
      inside: the operations that are copied.
    """

    def __init__(self, targets: Sequence[tf.Operation]) -> None:
        needed = ancestors(targets)
        self.targets, self.graph = targets, targets[0].graph
        self._shared = {op.name: op for op in needed if is_shared(op)}
        self.inside = [op for op in needed if op.name not in self._shared]
        self._nodes = v1.GraphDef(versions=self.graph.graph_def_versions)
        self._inputs: set[str] = set()

    @functools.cached_property
    def draws(self) -> bool:
        """Whether they draw random numbers from a seed, so that copies differ."""
        nodes = [node for op in self.inside for node in (op.node_def, *self.functions.nodes_of(op.node_def))]
        return any(map(has_seed, nodes))

    @functools.cached_property
    def functions(self) -> FunctionLibrary:
        """The functions that the operations call; found when a copy is made, since it takes a second for 10,000."""
        return FunctionLibrary.of(self.inside)

    def freeze(self) -> None:
        """Takes the nodes as they are now: what is changed in the graph later changes no copy."""
        if not self._inputs:
            self._nodes.node.extend(self._node(op) for op in self.inside)
            self._inputs = {_full_name(name) for node in self._nodes.node for name in node.input}

    def import_copy(
        self,
        name: str,
        number: int,
        gates: Mapping[str, Gate],
        replaced: Mapping[str, tf.Tensor] = MappingProxyType({}),
        targets: Sequence[tf.Operation] = (),
    ) -> list[tf.Operation]:
        """Adds a copy to the graph; returns the copies of the targets.

        Args:
          name: name scope of the copy.
          number: number of the copy, from 1; its random numbers depend on it.
          gates: the gates, by their names.
          replaced: name of a tensor of the nodes to the tensor that the copy uses in its place.
          targets: the operations whose copies are returned, if not those of the template.
        """
        self.freeze()
        nodes = v1.GraphDef()
        nodes.CopyFrom(self._nodes)
        for node in nodes.node:
            _make_distinct(node, name, number)
        nodes.library.CopyFrom(self.functions.copy_for(nodes.node, number))
        tensors = {tensor.name: tensor for op in self._shared.values() for tensor in op.outputs} | dict(replaced)
        for gate, (device, after) in gates.items():
            if "^" + gate in self._inputs:
                with tf.device(device), tf.control_dependencies(after):
                    # Its name is no gate's: what is copied may be copied again, with its gates.
                    tensors["^" + gate] = tf.constant(0, name=f"{gate}/passed")
        tensors = {name: tensor for name, tensor in tensors.items() if name in self._inputs}
        copies: list[tf.Operation] = tf.import_graph_def(
            nodes, tensors, [op.name for op in targets or self.targets], name
        )
        return copies

    def function_nodes(self, number: int) -> tuple[v1.GraphDef, list[tf.Tensor]]:
        """Returns a copy that waits for no gates, as the body of a function, and the tensors that this is given.

        The constants are inside, where TensorFlow may compute with them before it runs.  So are the functions that it
        calls: each graph has a library of its own.

        Args:
          number: number of the copy, from 1; its random numbers depend on it.
        """
        self.freeze()
        nodes = v1.GraphDef()
        nodes.CopyFrom(self._nodes)
        gates = {
            f"^{gate}" for op in self.inside for is_source in (True, False) for gate in self.gates_of(op, is_source)
        }
        for node in nodes.node:
            inputs = [name for name in node.input if name not in gates]
            del node.input[:]
            node.input.extend(inputs)
            _make_distinct(node, "function", number)
        library = self.functions
        nodes.library.CopyFrom(library.needed_by(nodes.node))
        nodes.library.MergeFrom(library.copy_for(nodes.node, number))
        given = list[tf.Tensor]()
        for op in self._shared.values():
            used = [tensor for tensor in op.outputs if tensor.name in self._inputs]
            if used and op.type == "Const":
                nodes.node.append(op.node_def)
            else:
                given += used
        return nodes, given

    def _node(self, op: tf.Operation) -> v1.NodeDef:
        node = op.node_def
        inputs = [name for name in node.input if not (name.startswith("^") and name[1:] in self._shared)]
        is_source = all(name.partition(":")[0] in self._shared for name in inputs)
        inputs += [f"^{gate}" for gate in self.gates_of(op, is_source)]
        del node.input[:]
        node.input.extend(inputs)
        node.attr.pop(COLOCATION, None)  # names nodes that may not be copied; the device gives the place
        return node

    def gates_of(self, op: tf.Operation, is_source: bool) -> list[str]:
        """Returns the gates that a node waits for.

        Args:
          op: the operation of the node.
          is_source: True if the node has no input from its own step, and could therefore run immediately.
        """
        if op.type == GET_NEXT:
            return [READ_GATE]
        ps = ps_of(op)
        return [pull_gate(ps)] if is_source and ps is not None and op.type != LOCK else []


def ps_of(op: tf.Operation) -> int | None:
    """Returns the index of the ps on which an operation runs; None on a worker."""
    if op.type == GET_NEXT or INPUT_STATE in op.name:
        return None
    device = device_of_op(op)
    return device.task if is_ps_device(device) and not uses_input_resource(op) else None


def device_of_op(op: tf.Operation) -> tf.DeviceSpec:
    """Returns the device of an operation; one without a device runs with its resource, as an optimizer's update."""
    for tensor in op.inputs:
        if tensor.dtype == tf.resource and not op.device:
            return device_of_op(tensor.op)
    return tf.DeviceSpec.from_string(op.device)


def _full_name(name: str) -> str:
    """Returns the full name of a node's input; a NodeDef omits the number of a first output."""
    return name if name.startswith("^") or ":" in name else f"{name}:0"


def _make_distinct(node: v1.NodeDef, name: str, number: int) -> None:
    """Gives a copied node its own random seed and its own loop frame."""
    make_seed_distinct(node, number)
    if "frame_name" in node.attr:
        node.attr["frame_name"].s = name.encode() + b"/" + node.attr["frame_name"].s
